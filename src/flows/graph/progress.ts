import type { FlowMemory, FlowSignal, StepRecord } from '../../jobs/flow-memory.ts'
import type { JobError } from '../../jobs/job-error.ts'
import type { NewChild, SideJob } from '../../jobs/workflow.ts'
import { recordOf } from '../shared/records.ts'
import type { GraphForm, StepForm } from './form.ts'

/** Before the name of a step: the record of what undoes it. */
export const UNDO = '~undo:'
/** Before the name of a step: the record of a wait for a worker that has its code. */
export const CODE = '~code:'
/** The code of the error of a step that will not run, since one before it failed. */
const STOPPED = 'flow.stopped'

/**
 * How far a step has come. `ended`: those behind it may begin. `failed`: they never will. `stopped`: it is behind one
 * that failed.
 */
export type Standing = 'ended' | 'failed' | 'stopped' | 'open' | 'ready' | 'waiting'

/** How far a flow has come: what it remembers, and what this entry adds. Times are the store's. */
export class Progress {
  readonly form: GraphForm
  readonly memory: FlowMemory
  /** Of this entry, or of the end of a step that has run in it. */
  nowUs: number
  readonly changed: Map<string, StepRecord> = new Map()
  readonly spawned: SideJob[] = []
  readonly children: NewChild[] = []
  readonly consumed: number[] = []
  /** Signals that no step has taken yet, oldest first. */
  readonly unread: FlowSignal[]
  readonly dropped: string[] = []
  readonly #records: Map<string, StepRecord>
  /** Kept until the next change: a step may be reached from many behind it. */
  readonly #standings: Map<string, Standing> = new Map()

  constructor(form: GraphForm, memory: FlowMemory, nowUs: number) {
    this.form = form
    this.memory = memory
    this.nowUs = nowUs
    this.unread = [...memory.signals]
    // A step that was not to run anymore may, once the flow is retried.
    this.#records = new Map(
      memory.steps.filter(({ error }) => error?.code !== STOPPED).map((record) => [record.name, record]),
    )
    if (!this.failure) this.#redoUndone()
  }

  record(name: string): StepRecord | undefined {
    return this.#records.get(name)
  }

  /** Writes a record, in place of one of its name. */
  put(given: Parameters<typeof recordOf>[0]): void {
    const record = recordOf(given)
    this.changed.set(record.name, record)
    this.#records.set(record.name, record)
    this.#standings.clear()
  }

  /** A step has an outcome without a run. @param result JSON text */
  finish(name: string, result: string): void {
    const { startedUs = this.nowUs, attempt = 0 } = this.#records.get(name) ?? {}
    this.put({ name, state: 'done', result, attempt, startedUs, finishedUs: this.nowUs })
  }

  skip(name: string): void {
    this.put({ name, state: 'skipped', finishedUs: this.nowUs })
  }

  fail(name: string, error: JobError): void {
    const { startedUs = this.nowUs, attempt = 0 } = this.#records.get(name) ?? {}
    this.put({ name, state: 'failed', error, attempt, startedUs, finishedUs: this.nowUs })
  }

  /** A step will not run, since another failed. */
  stop(name: string): void {
    const error = { code: STOPPED, message: 'The step was not run, since one before it failed.' }
    this.changed.set(name, recordOf({ name, state: 'skipped', error, finishedUs: this.nowUs }))
    this.#records.delete(name)
    this.#standings.clear()
  }

  standing(name: string): Standing {
    const known = this.#standings.get(name)
    if (known) return known
    const found = this.#standingOf(name)
    this.#standings.set(name, found)
    return found
  }

  /** The steps that may begin. */
  get ready(): string[] {
    return Object.keys(this.form.steps).filter((name) => this.standing(name) === 'ready')
  }

  #standingOf(name: string): Standing {
    const record = this.#records.get(name)
    const step = this.form.steps[name] as StepForm
    if (record?.state === 'failed') return step.on_failure === 'continue' ? 'ended' : 'failed'
    if (record) return isOpen(record) ? 'open' : 'ended'
    const before = step.after.map((each) => this.standing(each))
    if (before.some((each) => each === 'failed' || each === 'stopped')) return 'stopped'
    return before.every((each) => each === 'ended') ? 'ready' : 'waiting'
  }

  /** The first step that failed and stops those behind it. */
  get failure(): StepRecord | null {
    let first: StepRecord | null = null
    for (const [name, { on_failure: onFailure }] of Object.entries(this.form.steps)) {
      const record = this.#records.get(name)
      if (record?.state !== 'failed' || onFailure === 'continue') continue
      if (first === null || (record.finishedUs ?? 0) < (first.finishedUs ?? 0)) first = record
    }
    return first
  }

  /** The records of what has yet to end. */
  get open(): StepRecord[] {
    return [...this.#records.values()].filter(isOpen)
  }

  get records(): readonly StepRecord[] {
    return [...this.#records.values()]
  }

  /** After a retry, a step that was undone runs again. */
  #redoUndone(): void {
    for (const { name, state } of this.records) {
      if (!name.startsWith(UNDO) || state === 'skipped') continue
      this.skip(name)
      if (state === 'done') this.#records.delete(name.slice(UNDO.length))
    }
  }
}

function isOpen({ state }: StepRecord): boolean {
  return state === 'open' || state === 'sleeping' || state === 'awaiting' || state === 'retrying'
}
