// One worker process of one engine. It reports the number of jobs run and how long each waited.
import { nowUs, type Payload, type Setting } from './engine.ts'
import { engineOf } from './engines.ts'

/** The settings of a worker process. */
export interface WorkerOrder {
  readonly engine: string
  readonly setting: Setting
}

/** A report of a worker process. */
export type News =
  | { readonly kind: 'ready' }
  | { readonly kind: 'working' }
  | { readonly kind: 'ran'; readonly count: number; readonly waits: readonly Wait[] }

/** How long a stamped job waited. */
export interface Wait {
  readonly tenant: string | undefined
  readonly waitMs: number
}

const TELL_EVERY_MS = 10

const { engine, setting } = JSON.parse(process.argv[2] ?? '{}') as WorkerOrder
const tell = (news: News): void => void process.send?.(news)

let count = 0
let waits: Wait[] = []
const run = ({ atUs, tenant }: Payload): void => {
  count++
  if (atUs !== undefined) waits.push({ tenant, waitMs: (nowUs() - atUs) / 1000 })
}
setInterval(() => {
  if (count === 0) return
  tell({ kind: 'ran', count, waits })
  count = 0
  waits = []
}, TELL_EVERY_MS).unref()

const side = await engineOf(engine).open(setting)
process.on('message', (order: 'go' | 'stop') => {
  if (order === 'go') void side.work(run).then(() => tell({ kind: 'working' }))
  else void side.close().then(() => process.exit(0))
})
process.on('disconnect', () => process.exit(0))
tell({ kind: 'ready' })
