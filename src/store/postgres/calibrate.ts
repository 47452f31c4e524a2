import type { Statements } from '../../database/postgres.ts'
import { calibrate as calibrateState, level } from '../../policy/limits/calibrate.ts'
import type { CalibrationReport } from '../contract/waits.ts'
import type { Context } from './context.ts'
import { changeBucket, type Meant } from './penalize.ts'

/** Corrects a bucket by what the other side says is left of it; an answer that changes nothing writes nothing. True: that is news. */
export async function calibrate(
  context: Context,
  db: Statements,
  meant: Meant,
  told: CalibrationReport,
): Promise<boolean> {
  const isWindow = told.reset === 'window'
  let news = false
  await changeBucket(context, db, meant, ({ policy, state }, nowUs) => {
    if (!policy || (isWindow && told.resetUs <= nowUs)) return false
    const directions = { down: !isWindow, up: told.direction === 'both' }
    const leveled = level(policy, state, told.remaining, directions, nowUs)
    const bounded = isWindow ? calibrateState(policy, state, told, nowUs) : 'no'
    news = leveled === 'news' || bounded === 'news'
    return leveled !== 'no' || bounded !== 'no'
  })
  return news
}
