// The demo as its users start it: processes of its own, in real time.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, vi } from 'vitest'
import { startWorker } from '../../src/cli/demo/worker-process.ts'
import type { DemoSummary } from '../../src/cli/demo/promises.ts'
import { service } from '../services.ts'

const REDIS = await service('redis', 'the demo with its budgets on Redis')
const NATS = await service('nats', 'the demo with its budgets on NATS')
const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const TIMEOUT_MS = 90_000
// A demo leaves two thirds of a processor idle.
vi.setConfig({ maxConcurrency: 2 })

/**
 * How late a busy machine starts its jobs is not what these assert. A guard of 2 s covers the way to the partner there,
 * and half of a budget unused tells a hang.
 */
const ON_ANY_MACHINE = ['--guard', '2s', '--least-used', '50']

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

function sluice(...args: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, ...args], (error, out, err) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, out, err })
    })
  })
}

function expectKept({ code, out, err }: Ended): DemoSummary {
  expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' })
  const summary = JSON.parse(out) as DemoSummary
  expect(summary.broken).toEqual([])
  expect(summary.refused).toBe(0)
  expect(summary.lost).toBe(0)
  expect(summary.jobs).toBeGreaterThan(1_700)
  expect(summary.tenants).toHaveLength(40)
  for (const { worstWindow, max, calls } of [summary.total, ...summary.tenants]) {
    expect(worstWindow).toBeLessThanOrEqual(max)
    expect(calls).toBeGreaterThan(0)
  }
  // The budgets bite: the total was used to the last unit.
  expect(summary.total.worstWindow).toBe(summary.total.max)
  expect(summary.lowestUtilisation).toBeGreaterThanOrEqual(0.5)
  expect(summary.tenants.filter((each) => each.utilisation !== null).length).toBeGreaterThanOrEqual(10)
  expect(summary.urgent.jobs).toBeGreaterThanOrEqual(10)
  expect(summary.urgent.overtakenBy).toBe(0)
  expect(summary.urgent.waitMaxMs).toBeLessThan(summary.urgent.atTheEndMaxMs)
  expect(summary.lateness?.starts).toBeGreaterThan(300)
  return summary
}

describe.concurrent('sluice demo --fast', () => {
  it(
    'keeps every promise, and says so in plain lines and as data',
    async () => {
      const ended = await sluice('demo', '--fast', '--json', ...ON_ANY_MACHINE)
      const summary = expectKept(ended)
      expect(summary).toMatchObject({ kills: 0, doubleRuns: 0 })
      expect(summary.total.calls).toBe(summary.jobs)
      expect(ended.err).toMatch(/\d s {2}[\d,]+ of [\d,]+ done/)
      expect(ended.err).not.toContain('\u001B')
    },
    TIMEOUT_MS,
  )

  it(
    'keeps them when the worker is killed midway; only what was in flight then ran twice',
    async () => {
      const summary = expectKept(await sluice('demo', '--fast', '--kill', '--json', ...ON_ANY_MACHINE))
      expect(summary.kills).toBe(1)
      expect(summary.inFlightAtKill).toBeGreaterThan(0)
      expect(summary.doubleRuns).toBe(summary.doubleRunsInFlight)
      expect(summary.doubleRuns).toBeLessThanOrEqual(summary.inFlightAtKill)
    },
    TIMEOUT_MS,
  )
})

describe.concurrent.each([
  ['redis', REDIS],
  ['nats', NATS],
] as const)('sluice demo --%s', (flag, address) => {
  it.skipIf(address === null)(
    'keeps its budgets there through a kill: no window holds too much, and no job is lost',
    async () => {
      // A start may follow its payment by the guard, and its call comes after that.
      const args = ['demo', '--fast', '--kill', `--${flag}`, address ?? '', '--json', ...ON_ANY_MACHINE]
      const { code, out, err } = await sluice(...args)
      expect(err).toContain(`the budgets are kept at ${address}, namespace sluice-demo-`)
      const summary = JSON.parse(out) as DemoSummary
      expect(summary).toMatchObject({ refused: 0, lost: 0, kills: 1, leastUtilisation: 0.5 })
      expect(summary.doubleRuns).toBe(summary.doubleRunsInFlight)
      for (const { worstWindow, max } of [summary.total, ...summary.tenants])
        expect(worstWindow).toBeLessThanOrEqual(max)
      // How much of a budget is used depends on the machine, since each start crosses two servers.
      expect(summary.broken.filter((each) => !each.includes('left unused'))).toEqual([])
      expect(code).toBe(summary.broken.length === 0 ? 0 : 1)
    },
    TIMEOUT_MS,
  )
})

it.each(['redis', 'nats'])('sluice demo --%s says so before it starts anything when nothing answers', async (flag) => {
  const { code, out, err } = await sluice('demo', `--${flag}`, `${flag}://127.0.0.1:1`)
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toMatch(/^error limiter\.backend_down: /)
})

it.concurrent(
  'sluice demo fails with a code when a promise is broken: without a guard the partner refuses calls',
  async () => {
    const { code, out, err } = await sluice('demo', '--fast', '--guard', '0ms')
    expect(code).toBe(1)
    expect(out).toMatch(/✗ refused calls +[1-9]/)
    expect(err).toMatch(/^error demo\.broken: .*the partner refused \d+ calls/)
  },
  TIMEOUT_MS,
)

it('a demo whose worker process ends by itself is broken, and says where to look', async () => {
  const options = { store: 'sqlite:', partnerUrl: 'http://127.0.0.1:9', concurrency: 1, guardMs: 0, shared: null }
  await expect(startWorker(options)).rejects.toMatchObject({
    code: 'demo.broken',
    message: expect.stringContaining('The worker process ended by itself (1)') as string,
  })
})

it('sluice demo keeps its budgets at one server: --redis and --nats together are refused', async () => {
  const { code, out, err } = await sluice('demo', '--redis', '--nats')
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toContain('--redis')
})

it('sluice demo --help says what is checked and what the exit code means', async () => {
  const { code, out } = await sluice('demo', '--help')
  expect(code).toBe(0)
  for (const word of ['--fast', '--kill', '--redis', '--nats', '--json', 'refused', 'Exit code', 'NO_COLOR'])
    expect(out).toContain(word)
})

it.each([
  ['--guard', 'nope', /^error policy\.invalid: /],
  ['--least-used', 'nope', /^error cli\.usage: --least-used is invalid: "nope"/],
  ['--least-used', '0.98', /^error cli\.usage: --least-used is invalid: "0.98"/],
  ['--least-used', '101', /^error cli\.usage: --least-used is invalid: 101\. Expected 0 to 100/],
])('sluice demo refuses %s %s, before anything starts', async (option, value, refusal) => {
  const { code, out, err } = await sluice('demo', option, value)
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toMatch(refusal)
})
