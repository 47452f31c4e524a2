import { calibrate as calibrateState, level } from '../../policy/limits/calibrate.ts'
import type { CalibrationReport } from '../contract/waits.ts'
import type { Context } from './context.ts'
import { nameFor } from './own.ts'
import { changeBucket } from './penalize.ts'

/** Corrects a bucket by what the other side says is left of it; an answer that changes nothing writes nothing. True: that is news. */
export function calibrate(context: Context, limit: string, key: string, told: CalibrationReport, worker = 0): boolean {
  const nowUs = context.clock.nowUs()
  const isWindow = told.reset === 'window'
  let news = false
  context.policies.refresh()
  changeBucket(context, nameFor(context, limit, key, worker), key, nowUs, ({ policy, state }) => {
    if (!policy || (isWindow && told.resetUs <= nowUs)) return false
    const directions = { down: !isWindow, up: told.direction === 'both' }
    const leveled = level(policy, state, told.remaining, directions, nowUs)
    const bounded = isWindow ? calibrateState(policy, state, told, nowUs) : 'no'
    news = leveled === 'news' || bounded === 'news'
    return leveled !== 'no' || bounded !== 'no'
  })
  return news
}
