// One worker process of the hot-key bench. It reports the time and the job count of each claim.
import { input, limit, type Policy, Sluice, task } from '../src/exports/index.ts'
import { systemClock } from '../src/base/clock.ts'
import { createStore } from '../src/store/open.ts'
import type { Store } from '../src/store/contract/store.ts'

/** The settings of a worker process. */
export interface HotKeyOrder {
  readonly url: string
  readonly policy: Policy
  readonly concurrency: number
}

/** Decisions: store clock in µs, and the jobs that started then. */
export type Decisions = readonly (readonly [nowUs: number, jobs: number])[]

/** A report of a worker process. */
export type HotKeyNews =
  | { readonly kind: 'ready' }
  | { readonly kind: 'decided'; readonly decisions: Decisions }
  | { readonly kind: 'error'; readonly message: string }

const { url, policy, concurrency } = JSON.parse(process.argv[2] ?? '{}') as HotKeyOrder
const tell = (news: HotKeyNews): void => void process.send?.(news)
const ignore = (): void => undefined

const keepUs = 3_600_000_000
const retention = { completedUs: keepUs, cancelledUs: keepUs, discardedUs: keepUs }
const store = await createStore(url, { clock: systemClock, durability: 'power', retention })
let decisions: [number, number][] = []
const claim = store.claim.bind(store)
store.claim = async (request): ReturnType<Store['claim']> => {
  const claimed = await claim(request)
  if (claimed.jobs.length > 0) decisions.push([claimed.nowUs, claimed.jobs.length])
  return claimed
}
const hot = task('bench.hot', input<{ key: string }>(), {
  limits: [limit('hot', policy).by((job) => job.key)],
  run: ignore,
})
const error = ({ err }: { err?: unknown }, message: string): void =>
  tell({ kind: 'error', message: `${message}: ${String(err)}` })
const engine = new Sluice({
  store,
  tasks: [hot],
  queues: { default: { concurrency } },
  logger: { debug: ignore, info: ignore, warn: error, error },
})
setInterval(() => {
  if (decisions.length > 0) tell({ kind: 'decided', decisions })
  decisions = []
}, 100).unref()
process.on('message', (order: 'go' | 'stop') => {
  if (order === 'go') void engine.start()
  else void engine.stop({ within: '5s' }).then(() => process.disconnect())
})
process.on('disconnect', () => process.exit(0))
tell({ kind: 'ready' })
