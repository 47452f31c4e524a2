import type { FlowMemory, StepRecord } from '../../jobs/flow-memory.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import type { Home } from '../shared/arrivals.ts'
import { checkOutsideStep } from '../shared/step-context.ts'
import { AGAIN_LATER, isStoreTrouble } from '../shared/store-trouble.ts'
import { resumed } from './ask.ts'
import type { Body, MakeWant } from './body.ts'
import type { WorkflowCode } from './code.ts'
import { StepNames } from './names.ts'
import { Notes } from './notes.ts'
import { hasEnded, Replay } from './replay.ts'
import { type RanGranted, refused, runGranted } from './run-step.ts'
import { withdrawal } from './strayed.ts'

/** The run of one side job. */
export interface SideRun {
  readonly entry: FlowEntry
  readonly end: (end: FlowEnd) => void
  /** The store cannot be read: the run fails as a whole. */
  readonly fail: (error: unknown) => void
}

const NEVER = new Promise<never>(() => undefined)

/**
 * One entry of a body for side jobs of its flow that start together: it answers what is remembered, runs the steps of
 * these jobs, and leaves all others to the main job. The body gets no answer of a step that ran.
 */
export class SideEntry implements Body {
  readonly code: WorkflowCode
  readonly entry: FlowEntry
  readonly memory: FlowMemory
  readonly home: Home
  readonly lost = 0
  /** The runs whose steps the body has not asked for yet. */
  readonly #granted: Map<string, SideRun>
  readonly #entries: ReadonlySet<FlowEntry>
  readonly #replay: Replay
  readonly #names = new StepNames()
  readonly #asked = new Set<string>()
  /** Wants that are being made. */
  #making = 0
  #waitsForOthers = false
  #isTouched = false

  constructor(code: WorkflowCode, runs: readonly [SideRun, ...SideRun[]], memory: FlowMemory, home: Home) {
    this.code = code
    this.entry = runs[0].entry
    this.memory = memory
    this.home = home
    this.#granted = new Map(runs.map((run) => [run.entry.run.step ?? '', run]))
    this.#entries = new Set(runs.map(({ entry }) => entry))
    this.#replay = new Replay(memory.steps)
  }

  /** Enters the body. All of its runs end by it. */
  run(body: () => unknown): void {
    const ended = (): void => this.#withdraw()
    try {
      Promise.resolve(body()).then(ended, ended)
    } catch {
      ended()
    }
  }

  async ask(base: string, make: MakeWant): Promise<StepRecord> {
    this.checkOutside('step', base)
    if (this.#granted.size === 0) return NEVER
    const name = this.#names.begin(base)
    this.#asked.add(name)
    const known = this.#replay.get(name)
    if (known && hasEnded(known)) {
      const record = await this.#replayed(name)
      this.#names.end(base)
      return record
    }
    const granted = this.#granted.get(name)
    if (granted) void this.#start(name, granted, known, make)
    else this.#leave()
    return NEVER
  }

  checkOutside(what: string, name: unknown): void {
    checkOutsideStep(this.#entries, what, name)
  }

  remembered(name: string): StepRecord | undefined {
    return this.#replay.get(name)
  }

  get unasked(): readonly string[] {
    const names = new Set([...this.#replay.names, ...this.#granted.keys()])
    return [...names].filter((name) => !name.startsWith('~') && !this.#asked.has(name))
  }

  /** The main job remembers the answer once it comes there. */
  note(): void {}

  #replayed(name: string): Promise<StepRecord> {
    return new Promise((answer) => {
      this.#replay.ask(name, answer)
      this.#touch()
    })
  }

  /** A step of another job. */
  #leave(): void {
    this.#waitsForOthers = true
    this.#touch()
  }

  /** Runs the step of a side job, whose end is that of the run: the store writes the step. */
  async #start(name: string, side: SideRun, known: StepRecord | undefined, make: MakeWant): Promise<void> {
    const { entry, end } = side
    this.#granted.delete(name)
    this.#making++
    try {
      const made = await make(name, entry)
      const want = known ? resumed(made, known, entry.store.nowUs()) : made
      if (want.kind === 'step')
        void runGranted({ entry, memory: this.memory }, name, want).then((ran) => end(endOf(ran)))
      else {
        this.#granted.set(name, side)
        this.#leave()
      }
    } catch (error) {
      // Otherwise its options or its limits are wrong: another attempt would find the same.
      end(isStoreTrouble(error) ? AGAIN_LATER : failedAs(refused(entry, name, asError(error)).error))
    } finally {
      this.#making--
      this.#touch()
    }
  }

  /** Looks again after the body's own turn, when all siblings of a `Promise.all` have been asked for. */
  #touch(): void {
    if (this.#isTouched) return
    this.#isTouched = true
    setImmediate(() => {
      this.#isTouched = false
      if (this.#replay.next(this.#making === 0)) this.#touch()
      else if (this.#making === 0 && this.#waitsForOthers) this.#withdraw()
    })
  }

  /** The body has not asked for the steps of these side jobs: their units return. */
  #withdraw(): void {
    for (const [name, { entry, end }] of this.#granted) {
      const notes = new Notes(entry, this.#replay.lastUs)
      notes.add(withdrawal(this, name))
      end({ kind: 'moved', move: notes.into({ then: { kind: 'withdraw', uses: entry.job.uses } }), error: null })
    }
    this.#granted.clear()
  }
}

function endOf(ran: RanGranted): FlowEnd {
  if (ran.kind === 'ending') return ran.end
  return ran.error === null ? { kind: 'completed', result: ran.record.result } : failedAs(ran.error)
}

function failedAs(error: Error): FlowEnd {
  return { kind: 'failed', error, retry: null, uses: [], step: null }
}
