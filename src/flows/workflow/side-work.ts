import type { StepRecord } from '../../jobs/flow-memory.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { CALL_ALIASES, CALL_OPTIONS } from '../../engine/define/call-options.ts'
import { type AnyTask, definitionOf, type EnqueueOptions } from '../../engine/define/task.ts'
import { prepare } from '../../engine/run/enqueue.ts'
import type { SideJob } from '../../jobs/workflow.ts'
import { limit } from '../../policy/limits/define.ts'
import type { Settled } from '../machine/moves.ts'
import { StepFailed } from '../shared/failures.ts'
import { valueOf } from '../shared/records.ts'
import type { Want } from './ask.ts'
import type { Body } from './body.ts'

const ITEMS_AT_MOST = 10_000

type Draft = Pick<SideJob, 'job' | 'delayUs'>
type JobsWant = Extract<Want, { kind: 'jobs' }>

/** A task as a step. */
export async function callWant(body: Body, task: AnyTask, input: unknown, options: object): Promise<JobsWant> {
  const { name } = definitionOf(task)
  checkOptions(options, CALL_OPTIONS, `call of ${name}`, { aliases: CALL_ALIASES })
  return { kind: 'jobs', jobs: await draftsOf(body, task, [input], options), isMap: false }
}

/** A task for each item. `atOnce` is a budget of permits for this map alone. */
export async function mapWant(
  body: Body,
  step: string,
  task: AnyTask,
  inputs: unknown,
  options: { readonly atOnce?: unknown; readonly onFailure?: unknown },
): Promise<JobsWant | { kind: 'done'; result: string }> {
  const { name } = definitionOf(task)
  const what = `map of ${name}`
  checkOptions(options, ['atOnce', 'onFailure'], what)
  const { atOnce, onFailure = 'fail' } = options
  if (!Array.isArray(inputs) || inputs.length > ITEMS_AT_MOST)
    throw new SluiceError(
      'option.invalid',
      `The items of a ${what} are invalid: ${Array.isArray(inputs) ? inputs.length : show(inputs)}. Expected a list of at most ${ITEMS_AT_MOST} inputs.`,
    )
  if (atOnce !== undefined && !(typeof atOnce === 'number' && Number.isInteger(atOnce) && atOnce >= 1))
    throw new SluiceError(
      'option.invalid',
      `atOnce of a ${what} is invalid: ${show(atOnce)}. Expected a whole number from 1.`,
    )
  if (onFailure !== 'fail' && onFailure !== 'collect')
    throw new SluiceError(
      'option.invalid',
      `onFailure of a ${what} is invalid: ${show(onFailure)}. Expected 'fail' or 'collect'.`,
    )
  if (inputs.length === 0) return { kind: 'done', result: '[]' }
  const { entry, memory } = body
  const limits =
    atOnce === undefined
      ? []
      : [limit(`items at once: ${atOnce}`, { concurrency: atOnce }).key(`${entry.flow}/${memory.generation}/${step}`)]
  return { kind: 'jobs', jobs: await draftsOf(body, task, inputs, { limits }), isMap: true }
}

async function draftsOf(
  { entry }: Body,
  task: AnyTask,
  inputs: readonly unknown[],
  options: EnqueueOptions<never>,
): Promise<readonly Draft[]> {
  const { engine } = entry
  const definition = definitionOf(task)
  const drafts = await Promise.all(
    inputs.map(async (input) => {
      const { delayUs, ...job } = await prepare(engine, definition, input, options)
      return { job, delayUs: delayUs ?? null }
    }),
  )
  await engine.storeLimits()
  return drafts
}

/** The results of a map in the order of its items, or with `collect` how each ended. @throws {StepFailed} */
export function mapped(record: StepRecord, options: { readonly onFailure?: unknown } | null): unknown {
  const onFailure = options?.onFailure
  const { attempt, error, name, result, state } = record
  const items = (valueOf(result) ?? []) as readonly unknown[]
  if (state === 'done' && !error) return onFailure === 'collect' ? items.map((value) => ({ ok: true, value })) : items
  const failed = failuresOf(record)
  if (onFailure !== 'collect' || failed.size === 0) {
    const [first] = failed.values()
    throw new StepFailed(
      { step: name, attempt },
      first ?? error ?? { code: 'flow.stopped', message: 'It was cancelled.' },
    )
  }
  return items.map((value, i): Settled<unknown> => {
    const failure = failed.get(i)
    return failure ? { ok: false, error: failure } : { ok: true, value }
  })
}

interface Failure {
  readonly code: string
  readonly message: string
}

/** The failed items of a map, in order. */
function failuresOf({ error }: StepRecord): ReadonlyMap<number, Failure> {
  const items = (error?.details?.['items'] ?? []) as unknown as readonly { index: number; error: Failure }[]
  return new Map(
    items
      .toSorted((a, b) => a.index - b.index)
      .map(({ index, error: { code, message } }) => [index, { code, message }]),
  )
}
