import { encodeBucket } from '../../policy/bucket.ts'
import type { Rejected } from '../store.ts'
import { isBucketState, isSieve, type SetAside, spentBucket, weightsOf } from '../set-aside.ts'
import { type Found, UNREADABLE } from '../unreadable-rows.ts'
import { STATE } from '../state.ts'
import { advance } from './advance.ts'
import type { Context } from './context.ts'
import { depart } from './lanes.ts'
import { readName } from './own.ts'
import { discard } from './reject.ts'

const WAITING = [STATE.scheduled, STATE.available, STATE.retryable, STATE.pending].join()
/** Integers beyond are not told exactly, and a statement that reads one fails. */
const MOST = Number.MAX_SAFE_INTEGER
const NUMBERS = ['due', 'expires', 'since', 'created', 'priority', 'booked']

/** Puts what cannot be read out of the way of claims: jobs are discarded, buckets have nothing left, and what can be found again is forgotten. */
export function setAside(context: Context): Found {
  const { db } = context
  const instant = context.clock.read()
  const { nowUs } = instant
  const sieves = db.all<[number, string]>('SELECT id, sieve FROM lanes WHERE sieve IS NOT NULL')
  for (const [id, sieve] of sieves) if (!isSieve(sieve)) db.run('UPDATE lanes SET sieve = NULL WHERE id = ?', id)
  const inFlows: number[] = []
  const rejected: Rejected[] = []
  for (const [seq, lane, state] of unreadableJobs(context)) {
    const far = NUMBERS.map(
      (name) => `${name} = CASE WHEN ${isFar(name)} THEN ${FALLBACK[name] ?? 'NULL'} ELSE ${name} END`,
    )
    db.run(`UPDATE jobs SET weights = NULL, ${far.join()} WHERE seq = ?1`, seq)
    rejected.push(discard(context, seq, UNREADABLE, instant, inFlows))
    if (state === STATE.available) depart(context, lane, seq, nowUs)
  }
  const aside = spendBuckets(context, nowUs)
  const flows = [...advance(context, inFlows, instant).values()]
  return { rejected, flows, aside }
}

/** What stands in a column that may not be empty. */
const FALLBACK: Readonly<Record<string, string>> = { since: '0', created: '0', priority: '0' }

function unreadableJobs({ db }: Context): [seq: number, lane: number, state: number][] {
  const found = new Map<number, [number, number, number]>()
  const weighted = db.all<[number, number, number, string]>(
    `SELECT seq, lane, state, weights FROM jobs WHERE state IN (${WAITING}) AND weights IS NOT NULL`,
  )
  for (const [seq, lane, state, weights] of weighted)
    if (weightsOf(weights) === null) found.set(seq, [seq, lane, state])
  const far = db.all<[number, number, number]>(
    `SELECT seq, lane, state FROM jobs WHERE state IN (${WAITING}) AND (${NUMBERS.map(isFar).join(' OR ')})`,
  )
  for (const row of far) found.set(row[0], row)
  return [...found.values()]
}

function isFar(column: string): string {
  return `(${column} > ${MOST} OR ${column} < -${MOST})`
}

function spendBuckets(context: Context, nowUs: number): SetAside[] {
  const rows = context.db.all<[number, string, string, string]>(
    'SELECT id, limit_name, key, state FROM buckets WHERE state IS NOT NULL',
  )
  return rows.flatMap(([id, name, key, state]) => {
    if (isBucketState(state)) return []
    const { limit } = readName(name)
    const timeline = context.policies.timeline(limit)
    const spent = spentBucket(timeline.at(key).policy, nowUs)
    context.db.run(
      'UPDATE buckets SET state = ?, revision = ? WHERE id = ?',
      spent && encodeBucket(spent),
      timeline.revision,
      id,
    )
    return [{ kind: 'bucket', name: key === '' ? limit : `${limit} for ${key}`, bucket: { limit, key } }]
  })
}
