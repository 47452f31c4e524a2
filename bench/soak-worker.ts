// One worker process of the soak. It runs the store's jobs and reports once a second.
import { Sluice } from '../src/exports/index.ts'
import { systemClock } from '../src/base/clock.ts'
import { createStore } from '../src/store/open.ts'
import type { Store } from '../src/store/contract/store.ts'
import { type Churn, churnTasks } from './churn.ts'
import { nowMs } from './measure.ts'

const { url, keepMs, concurrency } = JSON.parse(process.argv[2] ?? '{}') as {
  url: string
  keepMs: number
  concurrency: number
}
const keepUs = keepMs * 1000
const retention = { completedUs: keepUs, cancelledUs: keepUs, discardedUs: keepUs }
const store = await createStore(url, { clock: systemClock, durability: 'power', retention })

let [ran, claimsMs, settlesMs, pickUpsMs] = [0, [] as number[], [] as number[], [] as number[]]
const claim = store.claim.bind(store)
store.claim = async (request): ReturnType<Store['claim']> => {
  const startMs = nowMs()
  const claimed = await claim(request)
  if (claimed.jobs.length > 0) claimsMs.push(nowMs() - startMs)
  return claimed
}
const settle = store.settle.bind(store)
store.settle = async (...what): ReturnType<Store['settle']> => {
  const startMs = nowMs()
  const settled = await settle(...what)
  // One of many is enough: they are written together.
  if (settlesMs.length < 1000) settlesMs.push(nowMs() - startMs)
  return settled
}

const tasks = churnTasks(({ atUs }: Churn) => {
  ran++
  if (atUs !== undefined) pickUpsMs.push(nowMs() - atUs / 1000)
})
const engine = new Sluice({ store, tasks: Object.values(tasks), queues: { default: { concurrency } } })
const telling = setInterval(() => {
  process.send?.({ ran, claimsMs, settlesMs, pickUpsMs })
  ;[ran, claimsMs, settlesMs, pickUpsMs] = [0, [], [], []]
}, 1000)
process.on('message', () => {
  clearInterval(telling)
  void engine.stop({ within: '5s' }).then(() => process.disconnect())
})
process.on('disconnect', () => process.exit(0))
await engine.start()
