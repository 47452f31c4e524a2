import { SluiceError } from '../../base/errors.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import { storedError } from '../../engine/run/settle.ts'
import type { NewChild, StepRecord } from '../../jobs/workflow.ts'
import type { FlowMemory } from '../../store/contract/workflows.ts'
import { type Home, plainArrival } from '../shared/arrivals.ts'
import { flowError } from '../shared/failures.ts'
import { endOf, recordOf } from '../shared/records.ts'
import { isWithinStep } from '../shared/step-context.ts'
import { AnswerOrder, hasEnded } from './answer-order.ts'
import { type Ask, resumed, type Want } from './ask.ts'
import type { WorkflowCode } from './code.ts'
import { dueIn } from './due.ts'
import { StepNames } from './names.ts'
import { type BareMove, Notes } from './notes.ts'
import { moveAtRest } from './rest.ts'
import { type Ran, runGranted, runInPlace } from './run-step.ts'
import { strayedFrom, unitsBack } from './strayed.ts'

/** Makes what a body wants by a step that has not ended. `isGranted`: its budget is paid. */
export type MakeWant = (name: string, isGranted: boolean) => Want | Promise<Want>

const OPEN: Want = { kind: 'open' }
const NEVER = new Promise<never>(() => undefined)

/**
 * One entry of a body: it answers what is remembered, runs what needs no budget and what was granted, and ends when the
 * body has come to rest. The body is then dropped: its promise never settles.
 */
export class BodyEntry {
  readonly code: WorkflowCode
  readonly entry: FlowEntry
  readonly memory: FlowMemory
  readonly home: Home
  readonly #remembered: ReadonlyMap<string, StepRecord>
  readonly #names = new StepNames()
  readonly #order: AnswerOrder
  readonly #notes: Notes
  readonly #asked = new Set<string>()
  /** Remembered steps that were asked for and wait for those that ended before them. */
  readonly #held = new Map<string, (record: StepRecord) => void>()
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
    this.#remembered = new Map(memory.steps.map((step) => [step.name, step]))
    this.#order = new AnswerOrder(memory.steps)
    this.#notes = new Notes(entry, this.#order.lastUs)
  }

  /** A side job runs one step of the body, and no other. */
  get isSide(): boolean {
    return this.entry.job.id !== this.entry.flow
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
        const known = this.#remembered.get(name)
        if (known && hasEnded(known)) this.#replay(known, answer)
        else void this.#open({ name, want: OPEN, answer }, known, make)
      })
    } finally {
      this.#names.end(base)
    }
  }

  /** @throws {SluiceError} `step.nested` within the code of a step */
  checkOutside(what: string, name: unknown): void {
    if (!isWithinStep(this.entry)) return
    throw new SluiceError(
      'step.nested',
      `The ${what} ${JSON.stringify(name)} was asked for within the code of another step. Ask for it in the body.`,
    )
  }

  /** Answers what is remembered: at once, unless something ended before it that was not answered yet. */
  #replay(known: StepRecord, answer: (record: StepRecord) => void): void {
    this.#held.set(known.name, answer)
    if (this.#order.first === known.name) this.#answerHeld(known.name)
    if (this.#held.size > 0) this.#touch()
  }

  #answerHeld(name: string): void {
    const answer = this.#held.get(name)
    this.#held.delete(name)
    this.#order.answered(name)
    answer?.(this.#remembered.get(name) as StepRecord)
  }

  async #open(ask: Ask, known: StepRecord | undefined, make: MakeWant): Promise<void> {
    const { name } = ask
    const isGranted = this.entry.run.step === name
    this.#running++
    try {
      // A side job runs its own step alone; all else is for the main job to get.
      const isOthers = !isGranted && (this.isSide || known?.state === 'open')
      const made = isOthers ? OPEN : await make(name, isGranted)
      const want = known ? resumed(made, known, this.entry.store.nowUs()) : made
      if (this.#over) return
      if (want.kind === 'done' || want.kind === 'detach') await this.#answerNow(ask, want)
      else if (want.kind !== 'step' || (!isGranted && !want.inPlace)) this.#waiting.set(name, { ...ask, want })
      else if (isGranted) await this.#ran({ ...ask, want }, await runGranted(this, name, want))
      else if (this.entry.signal.aborted) this.#drop(ask)
      else if (await this.#write()) await this.#ran({ ...ask, want }, await runInPlace(this, name, want))
    } catch (error) {
      // Its options or its limits are wrong: another attempt would find the same.
      await this.#ran(ask, this.#refused(name, asError(error)))
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
    if (want.kind === 'done' || (await this.#write([{ flow: want.flow, step: name, attached: false }]))) answer(record)
  }

  #refused(name: string, error: Error): Ran {
    this.entry.tell({ kind: 'failed', step: name, attempt: 0, error })
    return { kind: 'ended', record: recordOf({ name, state: 'failed', error: storedError(error) }), error }
  }

  /** A step has run. In place, its end is written before the body has it. */
  async #ran(ask: Ask, ran: Ran): Promise<void> {
    if (this.#over) return
    if (ran.kind === 'ending') this.#ending ??= ran.end
    else if (ran.kind === 'retrying') this.#waiting.set(ask.name, { ...ask, want: ran.want })
    else if (this.isSide) this.#finish(sideEnd(ran))
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

  /** Remembers an answer that needs no wait. */
  note(record: StepRecord): void {
    this.#notes.add(record)
  }

  /** The record of a step that was remembered at the entry. */
  remembered(name: string): StepRecord | undefined {
    return this.#remembered.get(name)
  }

  /** Remembered steps that this entry has not asked for yet, and the granted one. */
  get unasked(): readonly string[] {
    const { step } = this.entry.run
    const names = new Set([...this.#remembered.keys(), ...(step === null ? [] : [step])])
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
    const { first } = this.#order
    const held = first !== undefined && this.#held.has(first) ? first : this.#order.firstOf(this.#held)
    if (held !== undefined && (held === first || isResting)) this.#answerHeld(held)
    else if (!isResting) return
    else if (!this.#deliver()) return void this.#endAtRest()
    this.#touch()
  }

  /** Answers one signal that has come, or one time that is over. */
  #deliver(): boolean {
    const { entry, memory } = this
    const due = this.isSide ? null : dueIn(this.#waiting.values(), memory.signals, this.#notes, entry)
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
    } else if (this.isSide) {
      if (this.#waiting.size > 0) this.#withdraw()
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
    const move = moveAtRest({ asks, workflow: code.name, home, seen: memory.events, nowUs, clock, newId })
    if (move.then.kind === 'park') {
      const { dueUs, signals } = move.then
      const until = dueUs === null ? null : new Date(clock.now() + (dueUs - nowUs) / 1000)
      this.entry.tell({ kind: 'parked', signals, until })
    }
    return move
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
    if (this.isSide) return this.#withdraw()
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
    if (unasked.length === 0) return
    const inVain = this.entry.run.step !== null && unasked.includes(this.entry.run.step)
    if (inVain) unitsBack(this.entry)
    const record = strayedFrom(this, unasked, inVain)
    if (record) this.#notes.add(record)
  }

  /** The body did not ask for the step of this side job: its units return. */
  #withdraw(): void {
    const { job, run, tell } = this.entry
    tell({ kind: 'strayed', steps: [run.step ?? ''] })
    this.#finish({
      kind: 'moved',
      move: this.#notes.into({ steps: [], then: { kind: 'withdraw', uses: job.uses } }),
      error: null,
    })
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

/** A side job ends as its step does: the store writes the step. */
function sideEnd({ error, record }: Extract<Ran, { kind: 'ended' }>): FlowEnd {
  return error === null
    ? { kind: 'completed', result: record.result }
    : { kind: 'failed', error, retry: null, uses: [], step: null }
}
