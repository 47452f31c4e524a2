import { durationUs, type Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkInstant } from '../../base/instant.ts'
import { toJsonText } from '../../base/json-value.ts'
import { checkOptions, show } from '../../base/options.ts'
import { checkPriority } from '../../base/priority.ts'
import { messageOf } from '../../base/thrown.ts'
import { checkMeta } from '../../engine/define/call-options.ts'
import type { FlowEngine } from '../../engine/define/flow-entry.ts'
import { refuseForHold } from '../../engine/define/budgets.ts'
import { specsOf } from '../../engine/define/limit-registry.ts'
import type { FlowStartOptions } from '../../engine/define/workflow.ts'
import type { WorkflowKind } from '../../jobs/flow.ts'
import { extraOf, type JobExtra } from '../../jobs/job-extra.ts'
import { checkFlowName, DEADLINE_STEP, HOLD_STEP, type NewWorkflow, type SideJob } from '../../jobs/workflow.ts'
import type { UseSpec } from '../../policy/limits/define.ts'
import { ENTRY_ATTEMPTS, type Home, resolveUses } from './arrivals.ts'

/** The parts of a flow's start, beside its options. */
export interface StartPlan {
  readonly kind: WorkflowKind
  readonly name: string
  readonly queue: string
  /** The input, checked: what keys and limits are computed from. */
  readonly output: unknown
  /** Its JSON text as it is stored. */
  readonly text: string
  readonly key: ((input: never) => string) | undefined
  readonly hold: readonly UseSpec<never>[]
  /** The first step and its own limits; null: a plain entry. */
  readonly first: { readonly step: string; readonly uses: readonly UseSpec<never>[]; readonly attempts: number } | null
  readonly timeoutMs: number | null
  readonly definition: string | null
  readonly hash: string | null
}

/** The fields that a flow's main job keeps beside others in `extra`. */
export interface FlowExtra extends JobExtra {
  readonly flow?: { readonly key?: string; readonly priority?: number }
}

const OPTIONS = ['key', 'onConflict', 'priority', 'delay', 'meta', 'limits', 'tx'] as const
const ALIASES = { in: 'delay', id: 'key', unique: 'key' }

/** Prepares the start of a flow. @throws {SluiceError} `option.invalid`, and the codes of its first limits */
export async function prepareStart(
  engine: FlowEngine,
  plan: StartPlan,
  options: FlowStartOptions,
): Promise<NewWorkflow> {
  const { kind, name, queue, output, text, first } = plan
  checkOptions(options, OPTIONS, `start of ${name}`, { aliases: ALIASES })
  const { onConflict = 'join', meta } = options
  if (onConflict !== 'join' && onConflict !== 'reject')
    throw new SluiceError(
      'option.invalid',
      `onConflict of a start of ${name} is invalid: ${show(onConflict)}. Expected 'join' or 'reject'.`,
    )
  checkMeta(meta, `start of ${name}`)
  const key = keyOf(plan, options.key)
  const priority = options.priority === undefined ? 0 : checkPriority(options.priority, `a flow of ${name}`)
  const delayUs = options.delay === undefined ? null : delayOf(options.delay, engine.clock.now())
  const home = { queue, priority }
  const what = `a flow of ${name}`
  const given = specsOf(options.limits, `limits of a start of ${name}`)
  for (const { limit, policy } of plan.hold) refuseForHold(name, limit, policy)
  const held = await resolveUses(engine, plan.hold, output, home, what)
  const isHeld = plan.hold.length > 0 && held.length > 0
  const own = [...given, ...(first?.uses ?? [])]
  const uses = isHeld
    ? await resolveUses(engine, [...plan.hold, ...given], output, home, what)
    : await resolveUses(engine, own, output, home, what)
  const extra: FlowExtra = {
    ...(meta && { meta }),
    ...((key !== null || priority !== 0) && {
      flow: { ...(key !== null && { key }), ...(priority !== 0 && { priority }) },
    }),
  }
  const id = engine.newId()
  return {
    kind,
    name,
    key,
    onConflict,
    job: {
      id,
      task: name,
      queue,
      priority,
      input: text,
      uses,
      maxAttempts: isHeld || !first ? ENTRY_ATTEMPTS : first.attempts,
      runAtMs: null,
      expiresAtMs: null,
      unique: null,
      extra: Object.keys(extra).length === 0 ? null : toJsonText(extra, `meta of ${what}`),
    },
    step: isHeld ? HOLD_STEP : (first?.step ?? null),
    delayUs,
    deadline: plan.timeoutMs === null ? null : deadlineOf(engine, name, home, plan.timeoutMs * 1000, delayUs ?? 0),
    definition: plan.definition,
    hash: plan.hash,
    extra: meta ? toJsonText({ meta }, `meta of ${what}`) : null,
  }
}

/** The home of a flow's entries, from its main job. */
export function homeOf(queue: string, job: { readonly extra: string | null }): Home & { readonly key: string | null } {
  const { flow } = extraOf<FlowExtra>(job)
  return { queue, priority: flow?.priority ?? 0, key: flow?.key ?? null }
}

function keyOf({ name, key, output }: StartPlan, given: unknown): string | null {
  if (given === undefined && !key) return null
  let value = given
  if (given === undefined)
    try {
      value = key?.(output as never)
    } catch (cause) {
      throw new SluiceError('option.invalid', `The key function of ${name} threw: ${messageOf(cause)}.`, { cause })
    }
  return checkFlowName(value, `The key of a flow of ${name}`)
}

function delayOf(delay: Duration, nowMs: number): number | null {
  const us = durationUs(delay, 'delay')
  checkInstant(nowMs + us / 1000, 'The end of delay')
  return us === 0 ? null : us
}

/**
 * The job that ends a flow whose time is over. It needs no budget, and goes before other work of its queue. Its input is
 * that time in µs, which a retry of the flow gives it again.
 */
function deadlineOf(engine: FlowEngine, task: string, { queue }: Home, timeoutUs: number, delayUs: number): SideJob {
  return {
    job: {
      id: engine.newId(),
      task,
      queue,
      priority: 100,
      input: String(timeoutUs),
      uses: [],
      maxAttempts: ENTRY_ATTEMPTS,
      runAtMs: null,
      expiresAtMs: null,
      unique: null,
      extra: null,
    },
    step: DEADLINE_STEP,
    item: null,
    attempt: 0,
    delayUs: timeoutUs + delayUs,
  }
}
