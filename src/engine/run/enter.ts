import type { Logger } from '../../base/logger.ts'
import type { FlowEnd, FlowEngine, FlowEntry, FlowEntryNews } from '../define/flow-entry.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import { NonRetryable } from '../../jobs/handler-errors.ts'
import { failedStepOf } from '../../jobs/stored-error.ts'
import type { SettleResult } from '../../jobs/settlement.ts'
import type { FlowMove } from '../../jobs/workflow.ts'
import type { TaskDefinition } from '../define/task.ts'
import { reportEntry } from '../events/flow-news.ts'
import { carriedBy, carrying, type Instrumentation, wrapped } from '../events/instrumentation.ts'
import type { HandlerParts } from './handler-context.ts'
import { loggedRun, runLogger } from './job-logger.ts'
import { discarded, type Outcome, type OutcomeContext, outcomeOfError, settle, type SettleContext } from './settle.ts'

/** The parts that runs of workflow flows share. */
export interface EntryContext extends SettleContext, HandlerParts {
  readonly flows: FlowEngine
  readonly logger: Logger
  readonly instrumentation: () => Instrumentation | null
}

/** The outcome of a run, and its result if a write within the run has ended it already. */
export type EntryOutcome = Outcome & { readonly written?: { readonly result: SettleResult | null } }

/** Makes one run of a workflow flow's job. @throws {SluiceError} for a job that belongs to no such flow */
export function entryOf(context: EntryContext, job: GrantedJob, signal: AbortSignal): FlowEntry {
  const { events, feedback, flows, handlerLogger, notes, store } = context
  const { flow } = job
  const run = flow?.workflow
  if (!run)
    throw new NonRetryable(
      `The job ${job.id} belongs to no flow, but ${job.task} is a workflow. Start it by its start().`,
    )
  const tell = (news: FlowEntryNews): void => {
    logStep(context.logger, job, news)
    reportEntry({ id: flow.id, workflow: job.task }, news, events)
  }
  return {
    engine: flows,
    store,
    job,
    flow: flow.id,
    run,
    signal,
    logger: (at) => notes.logger(runLogger(handlerLogger, loggedRun(job, at)), job),
    charge: (limit, units) => feedback.charge(job, typeof limit === 'string' ? limit : limit.name, units),
    observe: (response) => feedback.observe(job, response),
    stay: (move) => stay(context, job, run.moves, tracedMove(job, move)),
    traced: (step, attempt, work) => {
      const instrumentation = context.instrumentation()
      if (!instrumentation?.step) return work()
      const call = { flow: flow.id, workflow: job.task, step, attempt, carried: carriedBy(job.extra) }
      return wrapped(work, (once) => instrumentation.step?.(call, once) ?? once())
    },
    tell,
  }
}

/** Logs a step that failed while its flow goes on. The end of a job, or of a flow, has a line of its own. */
function logStep(logger: Logger, job: GrantedJob, news: FlowEntryNews): void {
  if (news.kind === 'retrying') {
    const { error: err, delayMs } = news
    logger.warn({ ...loggedRun(job, news), err, delayMs }, 'a step failed, and is retried')
  } else if (news.kind === 'failed' && job.flow?.node === 0 && job.flow.workflow?.kind !== 'machine')
    logger.warn({ ...loggedRun(job, news), err: news.error }, 'a step failed')
}

/** A move whose new jobs and flows belong to the trace of the flow's start. */
function tracedMove({ extra }: GrantedJob, move: FlowMove): FlowMove {
  const carried = carriedBy(extra)
  if (Object.keys(carried).length === 0 || (move.spawn.length === 0 && move.children.length === 0)) return move
  return {
    ...move,
    spawn: move.spawn.map((each) => ({ ...each, job: carrying(each.job, carried) })),
    children: move.children.map((each) => ({
      ...each,
      flow: { ...each.flow, job: carrying(each.flow.job, carried) },
    })),
  }
}

async function stay(context: EntryContext, job: GrantedJob, moves: number, move: FlowMove): Promise<FlowEnd | null> {
  const { seq, attempt } = job
  const result = await settle(context, job, {
    settlement: { seq, id: job.id, attempt, kind: 'next', moves, move },
    error: null,
  })
  return result?.kind === 'settled' && result.state === 'active' ? null : { kind: 'settled', result }
}

/** The outcome of a run of a workflow flow's job that ended by itself. */
export function outcomeOfEntry(
  context: OutcomeContext,
  job: GrantedJob,
  task: TaskDefinition,
  end: FlowEnd,
): EntryOutcome {
  const { seq, attempt, flow } = job
  const moves = flow?.workflow?.moves ?? 0
  if (end.kind === 'moved') {
    const { then } = end.move
    const step = then.kind === 'end' ? failedStepOf(then.error) : null
    const settlement = { seq, id: job.id, attempt, kind: 'next' as const, moves, move: tracedMove(job, end.move) }
    return { settlement, error: end.error, ...(step && { step }) }
  }
  if (end.kind === 'completed')
    return { settlement: { seq, attempt, kind: 'complete', result: end.result }, error: null }
  if (end.kind === 'snoozed') return { settlement: { seq, attempt, kind: 'snooze', delayUs: end.delayUs }, error: null }
  if (end.kind === 'cancelled') return { settlement: { seq, attempt, kind: 'cancel' }, error: null }
  if (end.kind === 'settled')
    return { settlement: { seq, attempt, kind: 'cancel' }, error: null, written: { result: end.result } }
  const { error, retry, step, uses } = end
  const outcome = retry === null ? discarded(job, error) : outcomeOfError(context, job, { ...task, retry, uses }, error)
  return step === null ? outcome : { ...outcome, step: { step, attempt } }
}
