import type { StepRecord } from '../../jobs/flow-memory.ts'
import { durationMs, durationUs, type Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, quote, show } from '../../base/options.ts'
import { isName } from '../../base/text.ts'
import { specsOf } from '../../engine/define/limit-registry.ts'
import type { FlowEntry } from '../../engine/define/flow-entry.ts'
import type { AnyWorkflow } from '../../engine/define/workflow.ts'
import { retryPolicy } from '../../jobs/retry-policy.ts'
import { validate } from '../../jobs/schema.ts'
import { boundTo, checkPlace, resolveUses } from '../shared/arrivals.ts'
import { checkFunction } from '../shared/definition.ts'
import { StepFailed } from '../shared/failures.ts'
import { recordOf, valueOf } from '../shared/records.ts'
import { type ChildOptions, prepareChild } from '../shared/start-child.ts'
import type { StepContext } from '../shared/step-context.ts'
import type { Schemas } from '../shared/startable.ts'
import { untilOf } from '../shared/until.ts'
import type { SignalWant, SleepWant, StepWant } from './ask.ts'
import type { Body } from './body.ts'
import { LONGEST_NAME } from './names.ts'
import { callWant, mapped, mapWant } from './side-work.ts'
import type { StepOptions, Steps } from './steps.ts'

const STEP_OPTIONS = ['limits', 'retry', 'timeout', 'priority', 'queue'] as const

type StepCode = (context: StepContext) => unknown

/** The `flow` of one entry of a body. */
export function stepsOf(body: Body, input: unknown): Steps<Schemas> {
  const { memory } = body
  const steps = {
    id: memory.id,
    startedAt: new Date(memory.createdMs),
    step: async (name: string, second: StepOptions | StepCode, third?: StepCode) =>
      resultOf(await body.ask(name, (full, granted) => stepWant(body, input, full, granted, second, third))),
    call: async (name: string, task: never, given: unknown, options: object = {}) =>
      resultOf(await body.ask(name, () => callWant(body, task, given, options))),
    map: async (name: string, task: never, inputs: readonly unknown[], options: object = {}) =>
      mapped(await body.ask(name, (full) => mapWant(body, full, task, inputs, options)), options),
    child: async (name: string, of: AnyWorkflow, given: unknown, options: ChildOptions = {}) =>
      resultOf(
        await body.ask(name, async () => ({
          kind: 'child',
          flow: await prepareChild(body.entry.engine, of, given, options),
        })),
      ),
    detach: async (name: string, of: AnyWorkflow, given: unknown, options: ChildOptions = {}) =>
      resultOf(
        await body.ask(name, async () => ({
          kind: 'detach',
          flow: await prepareChild(body.entry.engine, of, given, options),
        })),
      ),
    sleep: async (name: string, duration: Duration) =>
      resultOf(await body.ask(name, () => sleepWant(body, durationUs(duration, `the sleep ${quote(name)}`)))),
    sleepUntil: async (name: string, at: Date) => resultOf(await body.ask(name, () => untilWant(body, name, at))),
    signal: (name: string, options: { readonly within?: Duration } = {}) => signal(body, name, options),
    changed: (name: string) => changed(body, name),
  }
  const own = Object.entries(steps).map(([name, value]) => [
    name,
    typeof value === 'function' ? observed(value) : value,
  ])
  return Object.freeze(Object.fromEntries(own)) as Steps<Schemas>
}

/**
 * A body may look at a failure late, as when it awaits another step first, or never. The process must not end by it: the
 * failure is remembered with its step.
 */
function observed<A extends never[]>(request: (...given: A) => Promise<unknown>): (...given: A) => Promise<unknown> {
  return (...given) => {
    const answer = request(...given)
    answer.catch(() => undefined)
    return answer
  }
}

/** The value of a step that has ended. @throws {StepFailed} */
function resultOf({ attempt, error, name, result, state }: StepRecord): unknown {
  if (state === 'done') return valueOf(result)
  throw new StepFailed({ step: name, attempt }, error ?? { code: 'flow.stopped', message: 'It was cancelled.' })
}

async function stepWant(
  { code, entry, home, lost }: Body,
  input: unknown,
  name: string,
  granted: FlowEntry | null,
  second: StepOptions | StepCode,
  third: StepCode | undefined,
): Promise<StepWant> {
  const what = `step ${quote(name)} of workflow ${code.name}`
  if (typeof second === 'function' && third !== undefined)
    throw new SluiceError(
      'option.invalid',
      `${what} has options behind its code: ${show(third)}. Expected flow.step(name, options, code).`,
    )
  const options = typeof second === 'function' ? {} : second
  const run = typeof second === 'function' ? second : third
  checkOptions(options, STEP_OPTIONS, what)
  checkFunction(run, `The code of ${what}`)
  const { limits, retry, timeout } = options
  const specs = boundTo(specsOf(limits, `limits of ${what}`), undefined)
  const place = checkPlace(options, home, what)
  const uses = granted ? granted.job.uses : await resolveUses(entry.engine, specs, input, place, what)
  const policy = retry === undefined ? code.retry : retryPolicy(retry, `retry of ${what}`)
  const fits = granted === null && uses.length === 0 && place.queue === entry.job.queue
  return {
    kind: 'step',
    terms: { uses, ...place, retry: policy },
    specs,
    timeoutMs: timeout === undefined ? code.timeoutMs : durationMs(timeout, `timeout of ${what}`),
    code: run as StepCode,
    inPlace: fits && lost === 0,
    attempt: fits ? Math.min(lost, policy.attempts - 1) : 0,
    delayUs: null,
    retrying: null,
  }
}

function sleepWant({ entry }: Body, us: number): SleepWant {
  return { kind: 'sleep', dueUs: entry.store.nowUs() + us, untilMs: null }
}

function untilWant({ entry }: Body, name: string, at: unknown): SleepWant {
  const untilMs = untilOf(at, `The time of sleepUntil ${quote(name)}`)
  const leftMs = Math.max(0, untilMs - entry.engine.clock.now())
  return { kind: 'sleep', dueUs: entry.store.nowUs() + Math.ceil(leftMs * 1000), untilMs }
}

async function signal(body: Body, name: string, options: { readonly within?: Duration }): Promise<unknown> {
  const { signals } = body.code
  const want = (): SignalWant => {
    if (!Object.hasOwn(signals, name))
      throw new SluiceError(
        'option.invalid',
        `The workflow ${body.code.name} has no signal ${quote(name)}. Expected ${Object.keys(signals).join(', ') || 'none'}.`,
      )
    checkOptions(options, ['within'], `signal ${name}`)
    const { within } = options
    const dueUs = within === undefined ? null : body.entry.store.nowUs() + durationUs(within, `within of ${name}`)
    return { kind: 'signal', signal: name, dueUs }
  }
  const record = await body.ask(name, want)
  if (record.state === 'skipped') return null
  const payload = resultOf(record)
  return validate(signals[name] as never, payload, `the signal ${name}`)
}

/** Whether a flow comes here for the first time under this code. */
async function changed(body: Body, name: unknown): Promise<boolean> {
  body.checkOutside('change', name)
  if (!isName(name, LONGEST_NAME))
    throw new SluiceError(
      'option.invalid',
      `The name of a change is invalid: ${quote(name)}. Expected 1 to ${LONGEST_NAME} characters.`,
    )
  const full = `~changed:${name}`
  // Siblings of this call ask first.
  await Promise.resolve()
  const known = body.remembered(full)
  if (known) return known.result === 'true'
  const isFirst = body.unasked.length === 0
  body.note(recordOf({ name: full, state: 'done', result: String(isFirst) }))
  return isFirst
}
