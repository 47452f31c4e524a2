import { SluiceError } from '../../base/errors.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import type { Events } from './events.ts'

/** Tells the outside what the end of a job meant for its flow. @param ended told of every job that has ended by it */
export function tellFlow(news: FlowNews, events: Events, ended: (id: string) => void): void {
  const { id, kind, name } = news
  for (const job of news.activated) events.emit('job.enqueued', job)
  for (const job of news.cancelled) {
    events.emit('job.cancelled', { ...job, attempt: 0 })
    ended(job.id)
  }
  for (const { input: _input, ...job } of news.discarded) {
    events.emit('job.discarded', { ...job, attempt: 0, error: resultsTooLarge(job.id) })
    ended(job.id)
  }
  if (news.ended !== null) events.emit(`flow.${news.ended}`, { id, kind, name })
}

/** Why a job of a flow was discarded when its time came. */
export function resultsTooLarge(id: string): SluiceError {
  return new SluiceError(
    'flow.results_too_large',
    `The results that the job ${id} was to be handed are too large together. Let results be references to data that is stored elsewhere.`,
  )
}
