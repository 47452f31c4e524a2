import type { GrantedJob } from '../../jobs/job.ts'
import type { FlowEnd } from '../define/flow-entry.ts'
import type { Budgets } from './budgets.ts'
import type { TaskDefinition } from '../define/task.ts'
import type { Wakeup } from '../events/wakeup.ts'
import { type CallContext, HandlerCall } from './call.ts'
import { type EntryOutcome, outcomeOfEntry } from './enter.ts'
import type { Reporter } from './report.ts'
import { mayStartOthers, type OutcomeContext, outcomeOf, settle } from './settle.ts'

/** The parts that the attempts of one worker share. */
export interface AttemptContext extends CallContext {
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  readonly outcomes: OutcomeContext
  readonly reporter: Reporter
  readonly wakeup: Wakeup
  /** The budgets that backends keep; null: there are none. */
  readonly budgets: Budgets | null
}

/** One attempt of one job: claimed, call, outcome, settle, report. */
export async function attempt(context: AttemptContext, job: GrantedJob): Promise<void> {
  const { budgets, feedback, held, outcomes, reporter, slots, store, wakeup } = context
  const task = taskOf(context, job)
  reporter.begun(job)
  outcomes.limits.learn(job.uses, store)

  const call = new HandlerCall(job, task, context)
  held.begin(call)
  const end = await call.run()
  held.end(call)

  const outcome: EntryOutcome =
    task.enter && end.kind === 'returned'
      ? outcomeOfEntry(outcomes, job, task, end.value as FlowEnd)
      : outcomeOf(outcomes, job, task, end)
  feedback.refused(job, outcome.error)

  const { settlement } = outcome
  const closes = settlement.kind === 'push-back' && settlement.limit !== null
  const giveBack = closes ? slots.recall(settlement.limit, settlement.key) : null
  const settling = outcome.written ? Promise.resolve(outcome.written.result) : settle(context, job, outcome)
  // The slot is free in the transaction that settles the job, so the claim that fills it shares its commit.
  slots.finished(job.queue, mayStartOthers(job, outcome))
  const settled = await settling
  slots.written(job.queue)
  budgets?.ended(job)
  reporter.left(job, settled !== null)
  giveBack?.()

  if (settled) {
    reporter.settled(job, task, outcome, settled, call.input)
    // No claim has followed its end, if a limit got permits while it ran.
    const mayLetOthers = settled.kind === 'settled' && settled.returned && !job.holds
    const goesOn = settled.kind === 'settled' && (settled.flow || settlement.kind === 'next' || mayLetOthers)
    // Such a store says by itself what may start.
    wakeup.notify(goesOn && !store.notifiesOwnWrites ? 'work' : 'settled')
    // But not that its schedule has missed others, which begin once it has ended.
    if (job.occurrence && store.notifiesOwnWrites) wakeup.notify('schedule')
  }
  held.remove(job)
}

function taskOf({ tasks }: AttemptContext, job: GrantedJob): TaskDefinition {
  const task = tasks.get(job.task)
  if (task) return task
  throw new RangeError(`The job ${job.id} was claimed, but this engine does not list its task ${job.task}`)
}
