// Measures how the plain code of many processes shares one key of 1,000/s with a burst of 100, without jobs beside it.
//
//   npx node bench/plain-code.ts [--store postgres://…] [--processes 8] [--callers 20] [--seconds 8]
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { systemClock } from '../src/base/clock.ts'
import { limit, Sluice } from '../src/exports/index.ts'
import { USUAL_RETENTION } from '../src/store/contract/retention.ts'
import { createStore } from '../src/store/open.ts'
import { measure } from './measure.ts'
import { dropSchema } from './postgres-statistics.ts'

const RATE = 1000
const BURST = 100
const hot = limit('hot', { rate: RATE, per: '1s', burst: BURST })

/** The report of one process: its starts in ms since the epoch, and its calls of the store. */
interface Report {
  readonly starts: readonly number[]
  readonly calls: Readonly<Record<string, number>>
  readonly cpuMs: number
}

/** Counts the calls of some verbs. */
function counted(verbs: object, names: readonly string[], calls: Record<string, number>): void {
  for (const name of names) {
    const verb = Reflect.get(verbs, name) as (...args: unknown[]) => unknown
    const counting = (...args: unknown[]): unknown => {
      calls[name] = (calls[name] ?? 0) + 1
      return verb.apply(verbs, args)
    }
    Object.defineProperty(verbs, name, { value: counting })
  }
}

async function child(url: string, callers: number): Promise<void> {
  const store = await createStore(url, { clock: systemClock, durability: 'power', retention: USUAL_RETENTION })
  const calls: Record<string, number> = {}
  counted(store, ['claim', 'enqueue'], calls)
  counted(store.budgets, ['acquire', 'remove'], calls)
  const sluice = new Sluice({ store, tasks: [] })
  const starts: number[] = []
  const end = { reached: false }
  let before = process.cpuUsage()
  const work = async (): Promise<void> => {
    while (!end.reached) {
      await sluice.limits.acquire([hot])
      starts.push(performance.timeOrigin + performance.now())
    }
  }
  process.on('message', (order) => {
    if (order === 'go') {
      before = process.cpuUsage()
      for (let i = 0; i < callers; i++) void work().catch(() => undefined)
    } else {
      end.reached = true
      const { user, system } = process.cpuUsage(before)
      process.send?.({ starts, calls, cpuMs: (user + system) / 1000 } satisfies Report, () => process.exit(0))
    }
  })
  await sluice.limits.acquire([hot])
  process.send?.('ready')
}

/** The most starts beyond rate and burst in any interval. */
function excessOf(starts: readonly number[]): number {
  let [most, least] = [-Infinity, Infinity]
  for (const [i, atMs] of starts.entries()) {
    const surplus = i - (atMs * RATE) / 1000
    least = Math.min(least, surplus)
    most = Math.max(most, surplus + 1 - least - BURST)
  }
  return most
}

async function fleet(
  url: string,
  processes: number,
  callers: number,
  seconds: number,
): Promise<Record<string, number>> {
  const order = ['child', url, String(callers)]
  const children = Array.from({ length: processes }, () => fork(import.meta.filename, order, { execArgv: [] }))
  await Promise.all(children.map((each) => once(each, 'message')))
  for (const each of children) each.send('go')
  await sleep(1000)
  const fromMs = performance.timeOrigin + performance.now()
  await sleep(seconds * 1000)
  const reports = await Promise.all(
    children.map(async (each) => {
      const [report, exit] = [once(each, 'message'), once(each, 'exit')]
      each.send('stop')
      const [told] = (await report) as [Report]
      await exit
      return told
    }),
  )
  const all = reports.flatMap(({ starts }) => starts).toSorted((a, b) => a - b)
  const used = all.filter((atMs) => atMs >= fromMs && atMs < fromMs + seconds * 1000).length
  const each = reports.map(({ starts }) => starts.length)
  const calls: Record<string, number> = {}
  for (const report of reports)
    for (const [name, count] of Object.entries(report.calls))
      calls[`${name} per start`] = (calls[`${name} per start`] ?? 0) + count / all.length
  return {
    'budget used, %': (100 * used) / (RATE * seconds),
    'most starts beyond the budget in any interval': excessOf(all),
    'starts of the process with the fewest': Math.min(...each),
    'starts of the process with the most': Math.max(...each),
    'processor, s': reports.reduce((sum, { cpuMs }) => sum + cpuMs, 0) / 1000,
    ...calls,
  }
}

const [role = '', childUrl = '', childCallers = ''] = process.argv.slice(2)
if (role === 'child') await child(childUrl, Number(childCallers))
else {
  const { values } = parseArgs({
    options: {
      store: { type: 'string', default: '' },
      processes: { type: 'string', default: '8' },
      callers: { type: 'string', default: '20' },
      seconds: { type: 'string', default: '8' },
    },
  })
  await measure(`Plain code of ${values.processes} processes at one key of ${RATE}/s`, async (path) => {
    if (values.store !== '') await dropSchema(values.store)
    return fleet(
      values.store === '' ? `sqlite:${path}` : values.store,
      Number(values.processes),
      Number(values.callers),
      Number(values.seconds),
    )
  })
  process.exit(0)
}
