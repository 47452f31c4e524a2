import type { Rejected } from '../contract/store.ts'
import type { SetAside } from '../contract/set-aside.ts'
import { forgetScanCursors, mendSettings, spendBuckets } from '../shared/mend.ts'
import { readNow } from '../shared/reading.ts'
import { isList, isObject, weightsOf } from '../shared/set-aside.ts'
import { type Found, UNREADABLE } from '../shared/unreadable-rows.ts'
import { STATE } from '../shared/state.ts'
import { advance } from './advance.ts'
import type { Context } from './context.ts'
import { depart } from './lanes.ts'
import { mendLanes, mendPermits } from './mend-lanes.ts'
import { discard } from './reject.ts'
import { accessOf } from './shared-sql.ts'

const WAITING = [STATE.scheduled, STATE.available, STATE.retryable, STATE.pending].join()
/** Larger integers are not exact, and a statement that reads one fails. */
const MOST = Number.MAX_SAFE_INTEGER
const NUMBERS = ['due', 'expires', 'since', 'created', 'priority', 'booked']

/**
 * Sets unreadable rows aside, so that claims continue. Jobs are discarded, buckets have nothing left, and derived data
 * is deleted.
 */
export function setAside(context: Context): Found {
  const { db } = context
  const instant = context.clock.read()
  const { nowUs } = instant
  const access = accessOf(context)
  const settings = [...readNow(mendSettings(access)), ...mendWorkers(context)]
  const lanes = mendLanes(context, nowUs)
  let mended = readNow(forgetScanCursors(access)) + mendPermits(context, nowUs)
  mended += db.run(`UPDATE jobs SET errors = NULL WHERE state IN (${LIVE}) AND ${NO_LIST}`)
  const inFlows: number[] = []
  const rejected: Rejected[] = []
  for (const [seq, lane, state] of unreadableJobs(context, lanes.lost)) {
    const far = NUMBERS.map(
      (name) => `${name} = CASE WHEN ${isFar(name)} THEN ${FALLBACK[name] ?? 'NULL'} ELSE ${name} END`,
    )
    db.run(`UPDATE jobs SET weights = NULL, plan = NULL, ${far.join()} WHERE seq = ?1`, seq)
    rejected.push(discard(context, seq, UNREADABLE, instant, inFlows))
    if (state === STATE.available) depart(context, lane, seq, nowUs)
  }
  const aside = [...settings, ...lanes.aside, ...readNow(spendBuckets(access))]
  const flows = [...advance(context, inFlows, instant).values()]
  return { rejected, flows, aside, mended }
}

const LIVE = `${WAITING}, ${STATE.active}`
const NO_LIST = `errors IS NOT NULL AND CASE WHEN json_valid(errors) THEN json_type(errors) <> 'array' ELSE 1 END`

function mendWorkers({ db }: Context): SetAside[] {
  const rows = db.all<[number, string, string | null]>('SELECT id, queues, tasks FROM workers')
  return rows.flatMap(([id, queues, tasks]): SetAside[] => {
    const fine = [isList(queues), tasks === null || isList(tasks)] as const
    if (fine[0] && fine[1]) return []
    db.run('UPDATE workers SET queues = ?, tasks = ? WHERE id = ?', fine[0] ? queues : '[]', fine[1] ? tasks : null, id)
    return [{ kind: 'worker', name: String(id) }]
  })
}

/** Replacement values of columns that may not be null. */
const FALLBACK: Readonly<Record<string, string>> = { since: '0', created: '0', priority: '0' }

/** @param lost lanes whose buckets are unknown now */
function unreadableJobs({ db }: Context, lost: readonly number[]): [seq: number, lane: number, state: number][] {
  const found = new Map<number, [number, number, number]>()
  const weighted = db.all<[number, number, number, string]>(
    `SELECT seq, lane, state, weights FROM jobs WHERE state IN (${WAITING}) AND weights IS NOT NULL`,
  )
  for (const [seq, lane, state, weights] of weighted)
    if (weightsOf(weights) === null) found.set(seq, [seq, lane, state])
  const planned = db.all<[number, number, number, string]>(
    `SELECT seq, lane, state, plan FROM jobs WHERE state = ${STATE.pending} AND plan IS NOT NULL`,
  )
  for (const [seq, lane, state, plan] of planned) if (!isObject(plan)) found.set(seq, [seq, lane, state])
  for (const lane of lost)
    for (const [seq, state] of db.all<[number, number]>(
      `SELECT seq, state FROM jobs WHERE lane = ? AND state IN (${WAITING})`,
      lane,
    ))
      found.set(seq, [seq, lane, state])
  const far = db.all<[number, number, number]>(
    `SELECT seq, lane, state FROM jobs WHERE state IN (${WAITING}) AND (${NUMBERS.map(isFar).join(' OR ')})`,
  )
  for (const row of far) found.set(row[0], row)
  return [...found.values()]
}

function isFar(column: string): string {
  return `(${column} > ${MOST} OR ${column} < -${MOST})`
}
