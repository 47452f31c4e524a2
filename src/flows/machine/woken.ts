import type { FlowMemory, FlowSignal, StepRecord } from '../../jobs/flow-memory.ts'
import { SluiceError } from '../../base/errors.ts'
import { fromJsonText } from '../../base/json-value.ts'
import type { FlowEntry } from '../../engine/define/flow-entry.ts'
import { validate } from '../../jobs/schema.ts'
import type { FlowThen } from '../../jobs/workflow.ts'
import { valueOf } from '../shared/records.ts'
import type { Settled } from './moves.ts'
import type { Visit } from './visit.ts'

/** The wait that the record of an awaited step keeps. */
export interface Awaited {
  readonly signals?: readonly string[]
  /** Names of the children's steps. */
  readonly children?: readonly string[]
}

/** The cause of a step's wake; or, if it was woken too early, how it waits on. */
export type Woken =
  | {
      readonly kind: 'enter'
      readonly signals: readonly { readonly name: string; readonly payload: unknown }[]
      readonly children: readonly Settled<unknown>[]
      /** The signals that it was handed, by their `seq`. */
      readonly consumed: readonly number[]
    }
  | { readonly kind: 'park'; readonly then: FlowThen }

/** A step that was not waited for. */
export const NOT_WOKEN: Extract<Woken, { kind: 'enter' }> = { kind: 'enter', signals: [], children: [], consumed: [] }

/** Reads what the flow of a job remembers. @throws {SluiceError} `flow.not_found` */
export async function memoryOf({ store, job, flow }: FlowEntry): Promise<FlowMemory> {
  const memory = await store.enterFlow(job.seq)
  if (memory) return memory
  throw new SluiceError('flow.not_found', `The flow ${flow} is no longer stored.`)
}

/** Finds out why the step of this run was woken. */
export async function wokenBy(visit: Visit): Promise<Woken> {
  const { code, entry, name } = visit
  const memory = await memoryOf(entry)
  const record = memory.steps.find((each) => each.name === name)
  // After a retry of the flow the record is gone: there is nothing to wait for.
  if (record?.state !== 'awaiting') return NOT_WOKEN
  const { signals: on, children } = (fromJsonText(record.input, {}) ?? {}) as Awaited
  if (children) return joined(entry, memory, record, children)
  const come = memory.signals.filter((signal) => on?.includes(signal.name))
  const isOver = record.dueUs !== null && entry.store.nowUs() >= record.dueUs
  if (come.length === 0 && !isOver) return waitOn(entry, memory, record, { signals: on ?? [], ends: 'none' })
  entry.tell({ kind: 'woken' })
  const signals = await Promise.all(come.map((signal) => payloadOf(code.signals, signal)))
  return { kind: 'enter', signals, children: [], consumed: come.map(({ seq }) => seq) }
}

function joined(entry: FlowEntry, memory: FlowMemory, record: StepRecord, names: readonly string[]): Woken {
  const byName = new Map(memory.steps.map((step) => [step.name, step]))
  const steps = names.map((name) => byName.get(name))
  if (steps.some((step) => step?.state === 'open')) return waitOn(entry, memory, record, { signals: [], ends: 'all' })
  entry.tell({ kind: 'woken' })
  return { kind: 'enter', signals: [], children: steps.map(settledOf), consumed: [] }
}

function settledOf(step: StepRecord | undefined): Settled<unknown> {
  if (step?.state === 'done') return { ok: true, value: valueOf(step.result) }
  const { code = 'flow.cancelled', message = 'The child was cancelled.' } = step?.error ?? {}
  return { ok: false, error: { code, message } }
}

async function payloadOf(
  schemas: Visit['code']['signals'],
  { name, payload }: FlowSignal,
): Promise<{ name: string; payload: unknown }> {
  return { name, payload: await validate(schemas[name] as never, JSON.parse(payload), `the signal ${name}`) }
}

/** The job was woken before its time, and keeps the place and the limits that it has. */
function waitOn(
  { job, run }: FlowEntry,
  { events }: FlowMemory,
  { dueUs }: StepRecord,
  on: { readonly signals: readonly string[]; readonly ends: 'all' | 'none' },
): Woken {
  const { uses, queue, priority, maxAttempts, attempt } = job
  const arrival = {
    step: run.step,
    uses,
    fairKey: null,
    share: 1,
    queue,
    priority,
    maxAttempts,
    attempt: attempt - 1,
    delayUs: null,
    runAtMs: null,
  }
  return { kind: 'park', then: { kind: 'park', seen: events, ...on, dueUs, arrival } }
}
