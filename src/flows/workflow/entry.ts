import type { FlowMemory, StepRecord } from '../../jobs/flow-memory.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import type { NewChild } from '../../jobs/workflow.ts'
import { type Home, plainArrival } from '../shared/arrivals.ts'
import { flowError } from '../shared/failures.ts'
import { endOf, recordOf } from '../shared/records.ts'
import { checkOutsideStep } from '../shared/step-context.ts'
import { AGAIN_LATER, isStoreTrouble } from '../shared/store-trouble.ts'
import { type Ask, resumed, type Want } from './ask.ts'
import type { Body, MakeWant } from './body.ts'
import type { WorkflowCode } from './code.ts'
import { dueIn } from './due.ts'
import { StepNames } from './names.ts'
import { type BareMove, Notes } from './notes.ts'
import { hasEnded, Replay } from './replay.ts'
import { moveAtRest } from './rest.ts'
import { type Ran, refused, runGranted, runInPlace } from './run-step.ts'
import { hasWithdrawn, strayedFrom, unitsBack } from './strayed.ts'

const OPEN: Want = { kind: 'open' }
const NEVER = new Promise<never>(() => undefined)

/**
 * One entry of a body by the main job of its flow: it answers what is remembered, runs what needs no budget and what was granted, and ends when the
 * body has come to rest. The body is then dropped: its promise never settles.
 */
export class BodyEntry implements Body {
  readonly code: WorkflowCode
  readonly entry: FlowEntry
  readonly memory: FlowMemory
  readonly home: Home
  readonly #entries: ReadonlySet<FlowEntry>
  readonly #replay: Replay
  readonly #names = new StepNames()
  readonly #notes: Notes
  readonly #asked = new Set<string>()
  readonly #waiting = new Map<string, Ask>()
  /** Steps that run, and wants that are being made. */
  #running = 0
  #turn: NodeJS.Immediate | null = null
  /** The end of the run once all other steps have ended: a failed attempt, or a push-back. */
  #ending: FlowEnd | null = null
  /** The flow is entered again in place of going on here. */
  #isDropped = false
  #over = false
  #resolve: (end: FlowEnd) => void = () => undefined

  constructor(code: WorkflowCode, entry: FlowEntry, memory: FlowMemory, home: Home) {
    this.code = code
    this.entry = entry
    this.memory = memory
    this.home = home
    this.#entries = new Set([entry])
    this.#replay = new Replay(memory.steps)
    this.#notes = new Notes(entry, this.#replay.lastUs)
  }

  /** The step of this start has ended before: the process of an earlier run died behind that commit. */
  get isPaidTwice(): boolean {
    const { step } = this.entry.run
    const known = step === null ? undefined : this.#replay.get(step)
    return known !== undefined && hasEnded(known)
  }

  /**
   * How often a run of this entry was lost, as by the death of its process. A step that ran in its place may have been
   * the cause, so its loss counts as an attempt of the step, and the next one is a run of its own.
   */
  get lost(): number {
    const { job, run } = this.entry
    return run.step === null || this.isPaidTwice ? job.attempt - 1 : 0
  }

  /** Enters the body. @param end turns its value into the end */
  run(body: () => unknown, end: (value: unknown) => FlowEnd | Promise<FlowEnd>): Promise<FlowEnd> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      this.entry.signal.addEventListener('abort', () => this.#touch(), { once: true })
      const threw = (error: unknown): void => void this.#bodyEnded(() => this.failure(asError(error)))
      try {
        Promise.resolve(body()).then((value) => this.#bodyEnded(() => end(value)), threw)
      } catch (error) {
        threw(error)
      }
    })
  }

  /** Asks for a step, and answers its end. @throws {SluiceError} for a name that it cannot have */
  async ask(base: string, make: MakeWant): Promise<StepRecord> {
    if (this.#over) return NEVER
    this.checkOutside('step', base)
    const name = this.#names.begin(base)
    this.#asked.add(name)
    try {
      return await new Promise<StepRecord>((answer) => {
        const known = this.#replay.get(name)
        if (known && hasEnded(known)) {
          this.#replay.ask(name, answer)
          if (this.#replay.isHolding) this.#touch()
        } else void this.#open({ name, want: OPEN, answer }, known, make)
      })
    } finally {
      this.#names.end(base)
    }
  }

  checkOutside(what: string, name: unknown): void {
    checkOutsideStep(this.#entries, what, name)
  }

  async #open(ask: Ask, known: StepRecord | undefined, make: MakeWant): Promise<void> {
    const { name } = ask
    const isGranted = this.entry.run.step === name
    this.#running++
    try {
      const isOthers = !isGranted && known?.state === 'open'
      const made = isOthers ? OPEN : await make(name, isGranted ? this.entry : null)
      const want = known ? resumed(made, known, this.entry.store.nowUs()) : made
      if (this.#over) return
      if (want.kind === 'done' || want.kind === 'detach') await this.#answerNow(ask, want)
      else if (want.kind !== 'step' || (!isGranted && !want.inPlace)) this.#waiting.set(name, { ...ask, want })
      else if (isGranted) await this.#ran({ ...ask, want }, await runGranted(this, name, want))
      else if (this.entry.signal.aborted) this.#drop(ask)
      else if (await this.#write()) await this.#ran({ ...ask, want }, await runInPlace(this, name, want))
    } catch (error) {
      // Otherwise its options or its limits are wrong: another attempt would find the same.
      if (isStoreTrouble(error)) this.#ending ??= AGAIN_LATER
      else await this.#ran(ask, refused(this.entry, name, asError(error)))
    } finally {
      this.#running--
      this.#touch()
    }
  }

  /** Answers what needs no wait. A flow that outlives this one is written before the body has its id. */
  async #answerNow({ answer, name }: Ask, want: Extract<Want, { kind: 'done' | 'detach' }>): Promise<void> {
    const result = want.kind === 'done' ? want.result : JSON.stringify({ id: want.flow.job.id })
    const record = recordOf({ name, state: 'done', attempt: 1, result })
    this.#notes.add(record)
    if (want.kind === 'done') return answer(record)
    if (!(await this.#write([{ flow: want.flow, step: name, attached: false }]))) return
    if (want.flow.key === null) return answer(record)
    // A running flow may have had its key: then the step is its id, or has failed.
    const { steps } = (await this.entry.store.enterFlow(this.entry.job.seq)) ?? this.memory
    answer(steps.find((step) => step.name === name) ?? record)
  }

  /** A step has run. In place, its end is written before the body has it. */
  async #ran(ask: Ask, ran: Ran): Promise<void> {
    if (this.#over) return
    if (ran.kind === 'ending') this.#ending ??= ran.end
    else if (ran.kind === 'retrying') this.#waiting.set(ask.name, { ...ask, want: ran.want })
    else {
      this.#notes.add(ran.record)
      if (this.entry.engine.clock.enterAlways === true) this.#drop(ask)
      else if (this.entry.run.step === ask.name || (await this.#write())) ask.answer(ran.record)
    }
  }

  /** The body is entered again for this step: here it is never answered. */
  #drop(ask: Ask): void {
    this.#isDropped = true
    this.#waiting.set(ask.name, ask)
  }

  /** Writes what was noted. False: the run has ended. */
  async #write(children?: readonly NewChild[]): Promise<boolean> {
    const end = await this.#notes.write(children)
    if (end) this.#finish(end)
    return !this.#over
  }

  note(record: StepRecord): void {
    this.#notes.add(record)
  }

  remembered(name: string): StepRecord | undefined {
    return this.#replay.get(name)
  }

  get unasked(): readonly string[] {
    const { step } = this.entry.run
    const names = new Set([...this.#replay.names, ...(step === null ? [] : [step])])
    return [...names].filter((name) => !name.startsWith('~') && !this.#asked.has(name))
  }

  /** Looks again after the body's own turn, when all siblings of a `Promise.all` have been asked for. */
  #touch(): void {
    if (!this.#over) this.#turn ??= setImmediate(() => this.#rest())
  }

  #rest(): void {
    this.#turn = null
    if (this.#over) return
    const isResting = this.#running === 0
    if (!this.#replay.next(isResting)) {
      if (!isResting) return
      if (!this.#deliver()) return void this.#endAtRest()
    }
    this.#touch()
  }

  /** Answers one signal that has come, or one time that is over. */
  #deliver(): boolean {
    const { entry, memory } = this
    const due = dueIn(this.#waiting.values(), memory.signals, this.#notes, entry)
    if (!due) return false
    this.#waiting.delete(due.ask.name)
    if (due.signal) this.#notes.read(due.signal)
    this.#notes.add(due.record)
    due.ask.answer(due.record)
    return true
  }

  async #endAtRest(): Promise<void> {
    if (this.#ending) {
      const end = this.#ending
      if (await this.#write()) this.#finish(end)
    } else if (this.#isDropped || this.entry.signal.aborted)
      this.#end(() => ({ then: { kind: 'go', arrival: plainArrival(this.home), place: 'keep' } }))
    else if (this.#waiting.size > 0) this.#end(() => this.#moveOn())
    // The body waits for something of its own, and would pay again for what is not written when that takes its process.
    else await this.#write()
  }

  #moveOn(): BareMove {
    const { clock, newId } = this.entry.engine
    const { code, home, memory } = this
    const nowUs = this.entry.store.nowUs()
    const asks = [...this.#waiting.values()]
    return moveAtRest({ asks, workflow: code.name, home, seen: memory.events, nowUs, clock, newId })
  }

  /** Ends the entry by a move, unless the body has strayed and is strict. */
  #end(make: () => BareMove): void {
    try {
      this.#checkStrayed()
      this.#finish({ kind: 'moved', move: this.#notes.into(make()), error: null })
    } catch (error) {
      this.#finish(this.failure(asError(error)))
    }
  }

  async #bodyEnded(end: () => FlowEnd | Promise<FlowEnd>): Promise<void> {
    if (this.#over) return
    this.#running++
    try {
      this.#checkStrayed()
      this.#finish(await end())
    } catch (error) {
      this.#finish(this.failure(asError(error)))
    }
  }

  /** @throws {SluiceError} `flow.strayed` */
  #checkStrayed(): void {
    const { unasked } = this
    const isGrantInVain = this.entry.run.step !== null && unasked.includes(this.entry.run.step)
    if (isGrantInVain) unitsBack(this.entry)
    // Side jobs that ran in vain count once the body asks for other steps in their place.
    const isAgain = hasWithdrawn(this) && [...this.#waiting.values()].some(({ want }) => want.kind === 'step')
    if (unasked.length === 0 && !hasWithdrawn(this)) return
    const record = strayedFrom(this, unasked, isGrantInVain || isAgain)
    if (record) this.#notes.add(record)
  }

  /** The flow ends as failed. */
  failure(error: Error): FlowEnd {
    return { kind: 'moved', move: this.#notes.into({ then: endOf(null, flowError(error)) }), error }
  }

  /** The flow ends as completed. @param result JSON text */
  completion(result: string | null): FlowEnd {
    return { kind: 'moved', move: this.#notes.into({ then: endOf(result, null) }), error: null }
  }

  /** The next generation begins. @param input JSON text */
  generation(input: string): FlowEnd {
    const then = { kind: 'go' as const, arrival: plainArrival(this.home), place: 'new' as const }
    return { kind: 'moved', move: { ...this.#notes.into({ again: input, then }), steps: [] }, error: null }
  }

  #finish(end: FlowEnd): void {
    this.#over = true
    if (this.#turn) clearImmediate(this.#turn)
    // The end of a run comes after all that the run has written.
    const { writing } = this.#notes
    if (writing) void writing.then(() => this.#resolve(end))
    else this.#resolve(end)
  }
}
