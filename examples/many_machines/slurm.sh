#!/bin/sh
#SBATCH --job-name=translate
#SBATCH --array=0-15
#SBATCH --cpus-per-task=1
#SBATCH --mem=512M
#SBATCH --requeue
#
# A job in 16 shards: `sbatch slurm.sh`, and the same again after a time limit: each shard goes on where it was. The
# ledger is on the node's own disk, and is copied to the working directory when the shard ends, also before its time.
set -u
trap : TERM # at the end of its time streamfold ends in order, and its ledger is copied
shard=$SLURM_ARRAY_TASK_ID
work=${TMPDIR:-/tmp}/translate-$shard
mkdir -p "$work" ledgers
[ -e "ledgers/$shard.ledger" ] && cp "ledgers/$shard.ledger" "$work/answers.jsonl.ledger"

streamfold batch run rows.jsonl -o "$work/answers.jsonl" -p main --shard "$shard/16"
code=$?
cp "$work/answers.jsonl.ledger" "ledgers/$shard.part" && mv "ledgers/$shard.part" "ledgers/$shard.ledger"
[ $code -le 1 ] || exit $code # 1: some rows are errors, which are among the answers
