import type { GrantedJob } from '../../jobs/job.ts'
import type { TaskDefinition } from '../define/task.ts'
import type { Wakeup } from '../events/wakeup.ts'
import { type CallContext, HandlerCall } from './call.ts'
import type { Reporter } from './report.ts'
import { type OutcomeContext, outcomeOf, settle, type SettleContext } from './settle.ts'

/** The parts that the attempts of one worker share. */
export interface AttemptContext extends CallContext, SettleContext {
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  readonly outcomes: OutcomeContext
  readonly reporter: Reporter
  readonly wakeup: Wakeup
}

/** One attempt of one job: claimed, call, outcome, settle, report. */
export async function attempt(context: AttemptContext, job: GrantedJob): Promise<void> {
  const { feedback, held, outcomes, reporter, slots, wakeup } = context
  held.add(job)
  const task = taskOf(context, job)
  reporter.started(job)

  const call = new HandlerCall(job, task, context)
  held.calls.set(job.seq, call)
  const end = await call.run()
  held.calls.delete(job.seq)

  const outcome = outcomeOf(outcomes, job, task, end)
  feedback.refused(job, outcome.error)

  const settling = settle(context, job, outcome)
  // The slot is free in the transaction that settles the job, so the claim that fills it shares its commit.
  slots.finished(job.queue)
  const settled = await settling

  if (settled) {
    reporter.settled(job, task, outcome, settled, call.input)
    const mayStartOthers = settled.kind === 'settled' && settled.flow
    wakeup.notify(mayStartOthers ? 'work' : 'settled')
  }
  held.remove(job)
}

function taskOf({ tasks }: AttemptContext, job: GrantedJob): TaskDefinition {
  const task = tasks.get(job.task)
  if (task) return task
  throw new RangeError(`The job ${job.id} was claimed, but this engine does not list its task ${job.task}`)
}
