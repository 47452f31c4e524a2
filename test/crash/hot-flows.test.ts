// Four processes whose wall clocks differ run flows at one hot key, and the backend of its budget is gone for a while.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger, Sluice } from '../../src/exports/index.ts'
import { HAS_NATS_SERVER, OwnNats } from '../limiter/own-nats.ts'
import { HAS_REDIS_SERVER, OwnRedis } from '../limiter/own-redis.ts'
import { LONG, sized } from '../sized.ts'
import { canSkew, skewedEnvironment } from '../skew.ts'
import { everyStore } from '../stores.ts'
import { BURST, hotFlow, RATE } from './hot-flow.ts'
import { pause } from './fleet.ts'

const SKEWS_S = canSkew() ? [-5, 0, 5, 0] : [0, 0, 0, 0]
const FLOWS = RATE * sized(3, 20)
const GONE_MS = 1500
/** How late a busy machine may let a step note its start. */
const LATE_S = 1

interface Gone {
  readonly url: string
  readonly stop: () => void
  readonly go: () => void
}
const BACKENDS: readonly (readonly [name: string, start: () => Promise<Gone | null>])[] = [
  ['its own store', () => Promise.resolve(null)],
  ...(HAS_REDIS_SERVER ? [['Redis', onRedis] as const] : []),
  ...(HAS_NATS_SERVER ? [['NATS', onNats] as const] : []),
]

async function onRedis(): Promise<Gone> {
  const redis = await OwnRedis.start()
  const go = (): void => redis.signal('SIGCONT')
  onTestFinished(() => (go(), redis.kill()))
  return { url: redis.url, stop: () => redis.signal('SIGSTOP'), go }
}

async function onNats(): Promise<Gone> {
  const nats = await OwnNats.start()
  const go = (): void => nats.signal('SIGCONT')
  onTestFinished(() => (go(), nats.end()))
  return { url: nats.url, stop: () => nats.signal('SIGSTOP'), go }
}

for (const store of await everyStore('flows of four processes at one key'))
  test.each(BACKENDS)(
    `flows of four processes on ${store.name} never exceed one hot key whose budget is on %s, and none is lost`,
    async (name, backendOf) => {
      const url = store.vacant()
      const backend = await backendOf()
      const folder = mkdtempSync(join(tmpdir(), 'sluice-hot-'))
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
      const witness = join(folder, 'witness')
      const starts = (): { readonly n: number; readonly at: number }[] => {
        const lines = readFileSync(witness, { encoding: 'utf8', flag: 'a+' }).split('\n').slice(0, -1)
        const noted = lines.map((line) => line.split(' ').map(Number) as [number, number])
        return noted.map(([n, us]) => ({ n, at: us / 1e6 })).sort((a, b) => a.at - b.at)
      }
      const hot = hotFlow(backend !== null, witness)
      const budgets = backend && { budgets: { shared: { backend: backend.url } } }
      const engine = new Sluice({ store: url, tasks: [], workflows: [hot], ...budgets, logger: silentLogger })
      onTestFinished(() => engine.stop({ within: 0 }))
      const inputs = Array.from({ length: FLOWS }, (_, n) => ({ n }))
      const flows = []
      for (let from = 0; from < FLOWS; from += 1000)
        flows.push(...(await hot.startMany(inputs.slice(from, from + 1000))))
      const worker = async (skewS: number): Promise<ChildProcess> => {
        const fixture = new URL('./fixtures/hot-worker.ts', import.meta.url)
        const args = [url, backend?.url ?? '', witness]
        const child = fork(fixture, args, { stdio: 'inherit', env: skewedEnvironment(skewS) })
        onTestFinished(() => void child.kill('SIGKILL'))
        await once(child, 'message')
        return child
      }
      const now = (): number => Number(process.hrtime.bigint() / 1000n) / 1e6
      const beganAt = now()
      await Promise.all(SKEWS_S.map(worker))
      if (backend) {
        await expect.poll(() => starts().length, { timeout: 60_000, interval: 20 }).toBeGreaterThan(BURST * 2)
        backend.stop()
        const goneAt = now()
        await pause(GONE_MS)
        const backAt = now()
        backend.go()
        // A step that was paid for may still begin, however late; without its backend the budget admits no other.
        expect(starts().filter(({ at }) => at < backAt).length).toBeLessThanOrEqual(BURST + RATE * (goneAt - beganAt))
        expect(starts().length).toBeLessThan(FLOWS)
      }
      const results = await Promise.all(flows.map((flow) => flow.result({ timeout: 120_000 })))
      expect(results).toEqual(inputs.map(({ n }) => n))
      const noted = starts()
      expect(new Set(noted.map(({ n }) => n)).size).toBe(FLOWS)
      // A start whose answer was lost may be paid for again, but no step runs twice: no process has died.
      expect(noted).toHaveLength(FLOWS)
      for (const [i, { at }] of noted.entries())
        for (const span of [BURST, RATE, RATE * 2]) {
          const later = noted[i + span + BURST]
          if (later) expect(later.at - at).toBeGreaterThan(span / RATE - LATE_S)
        }
      const tookS = (noted.at(-1)?.at ?? 0) - (noted[0]?.at ?? 0)
      expect(FLOWS).toBeLessThanOrEqual(BURST + RATE * (tookS + LATE_S))
      if (LONG) console.log(`${store.name}, ${name}: ${FLOWS} starts in ${tookS.toFixed(1)} s`)
    },
  )
