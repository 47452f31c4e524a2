import { SluiceError } from '../../base/errors.ts'
import { toJsonText } from '../../base/json-value.ts'
import { show } from '../../base/options.ts'
import { asError } from '../../base/thrown.ts'
import { workflowOf } from '../../engine/define/workflow.ts'
import { definitionOf as taskDefinitionOf } from '../../engine/define/task.ts'
import { prepare } from '../../engine/run/enqueue.ts'
import { storedError } from '../../engine/run/settle.ts'
import type { JobTerms, NewJob } from '../../jobs/job.ts'
import { inLaneOrder } from '../../jobs/lane.ts'
import { limit, type UseSpec, useOf } from '../../policy/limits/define.ts'
import { isPath, readPath } from '../../policy/limits/partition-key.ts'
import { type Home, resolveUses } from '../shared/arrivals.ts'
import { isStoreTrouble } from '../shared/store-trouble.ts'
import { untilOf } from '../shared/until.ts'
import { type InCode, isInCode, type StepForm, type TermsForm } from './form.ts'
import { COPIED_AT_MOST, itemsTask } from './items-seen.ts'
import type { Over, StepCode } from './model.ts'
import { CODE } from './progress.ts'
import { codeTask } from './code-task.ts'
import type { RunContext } from './run-context.ts'
import { Aborted, mayRunHere, runHere } from './run-here.ts'
import { fillRefs, holds, type SeenValues } from './seen.ts'
import { endWait } from './waits.ts'
import { CodeMissing, retryOf, type StepUses, usesOf } from './terms.ts'

/** Items of one step at most. */
const ITEMS_AT_MOST = 10_000
const MS_US = 1000
const NO_TERMS: JobTerms = { givenId: false, pending: false, leaseUs: null, timeoutUs: null, deadLetter: false }

/** Begins a step whose dependencies have ended. A part that cannot be computed fails the step, not the flow's code. */
export async function beginStep(run: RunContext, name: string): Promise<void> {
  const { progress } = run
  const step = progress.form.steps[name] as StepForm
  try {
    await begin(run, name, step)
    if (progress.record(CODE + name)) endCodeWait(run, name)
  } catch (error) {
    if (error instanceof Aborted || isStoreTrouble(error)) throw error
    if (error instanceof CodeMissing) waitForCode(run, name)
    else {
      run.entry.tell({ kind: 'failed', step: name, attempt: 0, error: asError(error) })
      progress.fail(name, storedError(asError(error)))
    }
  }
}

async function begin(run: RunContext, name: string, step: StepForm): Promise<void> {
  const { progress } = run
  const code = run.code(name)
  const seen = await run.seen(step.after)
  if (step.when !== undefined && !isWanted(name, step.when, code, seen)) return progress.skip(name)
  if (step.sleep !== undefined) return beginSleep(run, name, step.sleep, code, seen)
  if (step.signal !== undefined) {
    const dueUs = step.within === undefined ? null : progress.nowUs + step.within * MS_US
    progress.put({ name, state: 'awaiting', startedUs: progress.nowUs, dueUs })
    return endWait(run, name)
  }
  if (step.each === undefined) return step.child === undefined ? spawn(run, name, [seen], null) : child(run, name, seen)
  const items = itemsOf(name, step.each, code, seen)
  if (items.length === 0) return progress.finish(name, '[]')
  const seenByItem = items.map((item, index) => ({ ...seen, item, index }))
  if (step.child === undefined)
    return spawn(run, name, seenByItem, step.at_once ?? null, sharedOf(run, step, name, seen, items))
  progress.put({ name, state: 'open', startedUs: progress.nowUs })
  for (const [i, each] of seenByItem.entries()) await child(run, name, each, itemName(name, i))
}

/** The id under which items leave what they all see with their flow; undefined: each has a copy. */
function sharedOf(
  run: RunContext,
  { task }: StepForm,
  name: string,
  seen: SeenValues,
  { length }: readonly unknown[],
): string | undefined {
  const isShared = task === undefined && run.textOf(name, seen).length * length > COPIED_AT_MOST
  return isShared ? run.entry.engine.newId() : undefined
}

/** The record of a child for one item. */
export function itemName(name: string, index: number): string {
  return `${name}[${index}]`
}

function isWanted(
  name: string,
  when: NonNullable<StepForm['when']>,
  code: StepCode | undefined,
  seen: SeenValues,
): boolean {
  if (!isInCode(when)) return holds(when, seen)
  const answer: unknown = called(name, code?.when)(seen as never)
  // It would count as true.
  if (answer instanceof Promise) {
    answer.catch(() => undefined)
    throw new SluiceError(
      'option.invalid',
      `when of the step ${name} answered a promise. Expected true or false; what has to be awaited belongs into a step before it.`,
    )
  }
  return answer as boolean
}

function called<R>(name: string, over: Over<R> | null | undefined): Over<R> {
  if (!over) throw new CodeMissing(name)
  return over
}

function beginSleep(
  { progress, entry }: RunContext,
  name: string,
  sleep: NonNullable<StepForm['sleep']>,
  code: StepCode | undefined,
  seen: SeenValues,
): void {
  const { nowUs } = progress
  const { clock } = entry.engine
  const ms =
    typeof sleep === 'number'
      ? sleep
      : untilOf(dateOf(name, sleep, code, seen), `The time until which the step ${name} sleeps`) - clock.now()
  if (ms <= 0) return progress.finish(name, 'null')
  progress.put({ name, state: 'sleeping', startedUs: nowUs, dueUs: nowUs + Math.ceil(ms * MS_US) })
}

/** The instant of a sleep, unchecked. */
function dateOf(
  name: string,
  sleep: InCode | { readonly $ref: string },
  code: StepCode | undefined,
  seen: SeenValues,
): unknown {
  if (isInCode(sleep)) return called(name, code?.sleep)(seen as never)
  const value = fillRefs(sleep, seen)
  return typeof value === 'string' || typeof value === 'number' ? new Date(value) : value
}

function itemsOf(name: string, each: string | InCode, code: StepCode | undefined, seen: SeenValues): unknown[] {
  const list: unknown = isPath(each) ? readPath(seen, each) : called(name, code?.each)(seen as never)
  if (!Array.isArray(list))
    throw new SluiceError('input.invalid', `each of the step ${name} is invalid: ${show(list)}. Expected a list.`)
  if (list.length > ITEMS_AT_MOST)
    throw new SluiceError(
      'payload.too_large',
      `each of the step ${name} has ${list.length} items. Expected at most ${ITEMS_AT_MOST}.`,
    )
  // As the step itself will see them.
  return isPath(each) ? list : (JSON.parse(toJsonText(list, `each of the step ${name}`, Infinity)) as unknown[])
}

/** Adds the side jobs of a step: one, or one for each item. */
async function spawn(
  run: RunContext,
  name: string,
  seen: readonly SeenValues[],
  most: number | null,
  shared?: string,
): Promise<void> {
  const { progress } = run
  const step = progress.form.steps[name] as StepForm
  const isEach = step.each !== undefined
  const held = most === null ? null : atOnce(run.entry.flow, name, most)
  const jobs: NewJob[] = []
  for (const each of seen) jobs.push(await jobOf(run, name, { ...step, shared }, run.code(name), each, held))
  const [job] = jobs
  const code = run.code(name)?.run
  if (job && code && mayRunHere(run, step, job)) return runHere(run, name, step, code, await run.fresh(step.after), job)
  progress.put({ name, state: 'open', startedUs: progress.nowUs })
  // The loss of a run of this entry counts as an attempt of the one step that may have run in its place.
  const lost = run.isAlone && !isEach && step.code === true ? run.entry.job.attempt - 1 : 0
  for (const [i, job] of jobs.entries()) {
    const attempt = job.uses.length > 0 ? 0 : Math.min(lost, job.maxAttempts - 1)
    progress.spawned.push({ job, step: name, item: isEach ? i : null, attempt, delayUs: null })
  }
}

/** The form of a step's job: its own, or that of its undoing. `shared`: the id of `sharedOf`. */
export type JobForm = TermsForm & Pick<StepForm, 'task' | 'code' | 'input'> & { readonly shared?: string | undefined }

/** The job of a step, of one of its items, or of its undoing. */
export async function jobOf(
  run: RunContext,
  name: string,
  form: JobForm,
  code: Partial<Pick<StepCode, 'uses' | 'input' | 'task'>> | undefined,
  seen: SeenValues,
  held: UseSpec<never> | null,
): Promise<NewJob> {
  const { entry, home, progress } = run
  const { engine } = entry
  const place: Home = { queue: form.queue ?? home.queue, priority: form.priority ?? home.priority }
  const own = usesOf(name, form.limits ?? [], code?.uses ?? [], (limit) => engine.limits.policy(limit), seen)
  const uses = { ...own, specs: [...own.specs, ...(held ? [held] : [])] }
  const what = `the step ${name} of graph ${progress.form.name}`
  const called = form.task === undefined ? null : callOf(run, name, form, code, seen)
  if (called) return withUses(run, await called, uses, seen)
  const { task = codeTask(progress.form.name, name), shared } = form
  const text =
    form.task !== undefined
      ? toJsonText(inputFor(run, name, form, code, seen), `the input of ${what}`)
      : shared === undefined
        ? run.textOf(name, seen)
        : run.itemTextOf(name, { item: seen['item'], index: seen['index'] }, shared)
  const resolved = [...(await resolveUses(engine, uses.specs, seen, place, what)), ...uses.unknown]
  return newJob(run, shared === undefined ? task : itemsTask(task), text, place, form, inLaneOrder(resolved))
}

function inputFor(
  run: RunContext,
  name: string,
  { input }: JobForm,
  code: Partial<Pick<StepCode, 'input'>> | undefined,
  seen: SeenValues,
): unknown {
  if (input === undefined) return JSON.parse(run.textOf(name, seen)) as unknown
  return isInCode(input) ? called(name, code?.input)(seen as never) : fillRefs(input, seen)
}

/** A call of a task that this engine knows: its schema, its own limits and its retries. Null: it does not know it. */
function callOf(
  run: RunContext,
  name: string,
  form: JobForm,
  code: Partial<Pick<StepCode, 'input' | 'task'>> | undefined,
  seen: SeenValues,
): NewJob | Promise<NewJob> | null {
  const { engine } = run.entry
  const { task = '', queue, priority = run.home.priority, retry, timeout } = form
  const options = {
    priority,
    ...(queue !== undefined && { queue }),
    ...(retry && { retry }),
    ...(timeout !== undefined && { timeout }),
  }
  const input = inputFor(run, name, form, code, seen)
  return code?.task
    ? prepare(engine, taskDefinitionOf(code.task), input, options)
    : engine.listed.call(task, input, options)
}

/** Adds the limits of a step to those of its call. */
async function withUses(
  { entry: { engine } }: RunContext,
  job: NewJob,
  { specs, unknown }: StepUses,
  seen: SeenValues,
): Promise<NewJob> {
  const terms = { weight: undefined, priority: job.priority }
  const more = [...engine.limits.resolve(specs, seen, terms, `a call of task ${job.task}`), ...unknown]
  await engine.storeLimits()
  const own = more.filter((each) => !job.uses.some((use) => use.limit === each.limit && use.key === each.key))
  return { ...job, uses: inLaneOrder([...job.uses, ...own]) }
}

function newJob(
  { entry }: RunContext,
  task: string,
  input: string,
  { queue, priority }: Home,
  { retry, timeout }: JobForm,
  uses: NewJob['uses'],
): NewJob {
  const { attempts, ...policy } = retryOf(retry)
  const extra = {
    ...(retry && { retry: { ...policy, nonRetryable: [] } }),
    ...(timeout !== undefined && { timeoutMs: timeout }),
  }
  return {
    id: entry.engine.newId(),
    task,
    queue,
    priority,
    input,
    uses,
    maxAttempts: attempts,
    runAtMs: null,
    expiresAtMs: null,
    unique: null,
    extra: retry || timeout !== undefined ? JSON.stringify(extra) : null,
    ...(timeout !== undefined && { terms: { ...NO_TERMS, timeoutUs: timeout * MS_US } }),
  }
}

async function child(run: RunContext, name: string, seen: SeenValues, record: string = name): Promise<void> {
  const { entry, home, progress } = run
  const step = progress.form.steps[name] as StepForm
  const of = run.code(name)?.child
  const input = inputFor(run, name, step, run.code(name), seen)
  const options = { priority: home.priority }
  const flow = await (of
    ? workflowOf(of).prepare(entry.engine, input, options)
    : entry.engine.listed.start(step.child ?? '', input, options))
  if (!flow) throw new CodeMissing(name)
  progress.put({ name: record, state: 'open', startedUs: progress.nowUs })
  progress.children.push({ flow, step: record, attached: true })
}

/**
 * A step that needs code which this process has not: a job of the code's name waits, uncharged, for a worker that has
 * it. Its run does nothing but wake the flow, which tries again.
 */
export function waitForCode(run: RunContext, name: string): void {
  const { progress, home } = run
  const record = CODE + name
  if (progress.record(record)?.state === 'open') return
  const text = toJsonText({ flow: { id: run.entry.flow, step: name, wake: true } }, 'a wake')
  const job = newJob(run, codeTask(progress.form.name, name), text, home, {}, [])
  progress.put({ name: record, state: 'open', startedUs: progress.nowUs })
  progress.spawned.push({ job, step: record, item: null, attempt: 0, delayUs: null })
}

function endCodeWait({ progress }: RunContext, name: string): void {
  const record = CODE + name
  if (progress.record(record)?.state === 'open') progress.dropped.push(record)
  progress.skip(record)
}

/**
 * How many items of a step run at once is a limit of that concurrency, with a budget for each step of each flow. So the
 * items wait like all others, and nothing wakes the flow between them.
 */
function atOnce(flow: string, step: string, most: number): UseSpec<never> {
  return useOf(limit(`at once ${most}`, { concurrency: most }).key(`${flow}/${step}`))
}
