import type { FlowSignal } from '../../../jobs/flow-memory.ts'
import { MAX_UNREAD_SIGNALS } from '../../../jobs/workflow.ts'
import type { FlowAddress, SignalAnswer } from '../../contract/workflows.ts'
import type { Reading } from '../reading.ts'
import { type FlowAccess, all, get, isUuid, now, run } from '../sql.ts'
import { storedFlowState } from '../stored-flows.ts'
import { lockFlows, saveFlows } from './flow-rows.ts'
import { wakeFlows } from './wake.ts'

const WORKFLOWS = `kind IN ('workflow', 'machine', 'graph')`
const BY_ID = `SELECT seq FROM sluice.flows WHERE id = $1::uuid AND ($2::text IS NULL OR name = $2) AND ${WORKFLOWS}`
const BY_KEY = `SELECT seq FROM sluice.flows WHERE name = $1 AND key = $2 AND state = ${storedFlowState('running')}`
const SENT = 'SELECT 1 FROM sluice.flow_signals WHERE flow = $1 AND name = $2 AND once = $3'
const FULL = `SELECT 1 FROM sluice.flow_signals WHERE flow = $1 AND payload IS NOT NULL LIMIT 1 OFFSET ${MAX_UNREAD_SIGNALS - 1}`
const INSERT = 'INSERT INTO sluice.flow_signals (flow, name, payload, once) VALUES ($1, $2, $3, $4)'

/** Stores a signal for a flow, and wakes its main job if that waits for it. */
export function* signalFlow(
  access: FlowAccess,
  to: FlowAddress,
  signal: string,
  payload: string,
  once: string | null,
): Reading<SignalAnswer> {
  const { db } = access
  const seq = yield* find(access, to)
  const flow = seq === null ? undefined : (yield* lockFlows(access, [seq])).get(seq)
  if (!flow) return { kind: 'missing' }
  const { id } = flow
  // A sender that lost the answer asks again, perhaps after its signal has let the flow end.
  if (once !== null && (yield* get(db, SENT, flow.seq, signal, once))) return { kind: 'duplicate', id }
  if (flow.state !== 'running')
    return 'key' in to ? yield* signalFlow(access, to, signal, payload, once) : { kind: 'ended', id }
  if (flow.events >= MAX_UNREAD_SIGNALS && (yield* get(db, FULL, flow.seq))) return { kind: 'full', id }
  yield* run(db, INSERT, flow.seq, signal, payload, once)
  flow.events++
  const { nowUs } = yield* now(access)
  yield* wakeFlows(access, [{ flow, ended: false, signal }], nowUs)
  yield* saveFlows(access, [flow])
  return { kind: 'stored', id }
}

function* find({ db }: FlowAccess, to: FlowAddress): Reading<number | null> {
  if ('key' in to) return (yield* get<[number]>(db, BY_KEY, to.name, to.key))?.[0] ?? null
  return isUuid(to.id) ? ((yield* get<[number]>(db, BY_ID, to.id, to.name ?? null))?.[0] ?? null) : null
}

/** Removes signals that were handed over. Of those that may not be sent again the name of the message stays. */
export function* consume({ db }: FlowAccess, seqs: readonly number[]): Reading<void> {
  if (seqs.length === 0) return
  yield* run(
    db,
    'UPDATE sluice.flow_signals SET payload = NULL WHERE seq = ANY ($1::bigint[]) AND once IS NOT NULL',
    seqs,
  )
  yield* run(db, 'DELETE FROM sluice.flow_signals WHERE seq = ANY ($1::bigint[]) AND once IS NULL', seqs)
}

/** The unread signals of a flow, oldest first. */
export function* unread({ db }: FlowAccess, flow: number): Reading<FlowSignal[]> {
  const sql = 'SELECT seq, name, payload FROM sluice.flow_signals WHERE flow = $1 AND payload IS NOT NULL ORDER BY seq'
  return (yield* all<[number, string, string]>(db, sql, flow)).map(([seq, name, payload]) => ({ seq, name, payload }))
}
