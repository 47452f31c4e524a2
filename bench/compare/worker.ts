// One worker process of one engine. It reports when its jobs started and how long each waited.
import { setTimeout as sleep } from 'node:timers/promises'
import { nowUs, type Payload, type Setting } from './engine.ts'
import { engineOf } from './engines.ts'

/** The settings of a worker process. */
export interface WorkerOrder {
  readonly engine: string
  readonly setting: Setting
  /** Reports the start of each job, not only their number. */
  readonly stamps?: boolean
}

/** A report of a worker process. */
export type News =
  | { readonly kind: 'ready' }
  | { readonly kind: 'working' }
  | {
      readonly kind: 'ran'
      readonly count: number
      /** The first and the last start, µs of the steady clock. */
      readonly firstUs: number
      readonly lastUs: number
      readonly startsUs: readonly number[]
      readonly waits: readonly Wait[]
    }

/** How long a stamped job waited. */
export interface Wait {
  readonly key: string | undefined
  readonly waitMs: number
}

const TELL_EVERY_MS = 10

const { engine, setting, stamps = false } = JSON.parse(process.argv[2] ?? '{}') as WorkerOrder
const tell = (news: News): void => void process.send?.(news)

let [count, firstUs, lastUs] = [0, 0, 0]
let startsUs: number[] = []
let waits: Wait[] = []
const run = ({ atUs, key, holdMs }: Payload): void | Promise<void> => {
  lastUs = nowUs()
  if (firstUs === 0) firstUs = lastUs
  count++
  if (stamps) startsUs.push(lastUs)
  if (atUs !== undefined) waits.push({ key, waitMs: (lastUs - atUs) / 1000 })
  if (holdMs !== undefined) return sleep(holdMs)
}
setInterval(() => {
  if (count === 0) return
  tell({ kind: 'ran', count, firstUs, lastUs, startsUs, waits })
  count = 0
  startsUs = []
  waits = []
}, TELL_EVERY_MS).unref()

const { open, worksAtOnce } = engineOf(engine)
let side = worksAtOnce ? null : await open(setting)
async function go(): Promise<void> {
  side ??= await open(setting)
  await side.work(run)
  tell({ kind: 'working' })
}
process.on('message', (order: 'go' | 'stop') => {
  if (order === 'go') void go()
  else void side?.close().then(() => process.exit(0))
})
process.on('disconnect', () => process.exit(0))
tell({ kind: 'ready' })
