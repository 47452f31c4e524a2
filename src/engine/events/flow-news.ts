import { SluiceError } from '../../base/errors.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import type { Events } from './events.ts'

/** Reports the effect of a job's end on its flow. @param ended called for every job that ended by it */
export function reportFlow(news: FlowNews, events: Events, ended: (id: string) => void): void {
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

/** The reason why a job of a flow was discarded when it became available. */
export function resultsTooLarge(id: string): SluiceError {
  return new SluiceError(
    'flow.results_too_large',
    `The results for the job ${id} are too large in total. Store the data elsewhere and return references to it.`,
  )
}
