import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { seededRandom, silentLogger, Sluice } from '../../src/exports/index.ts'
import { LONG, sized } from '../sized.ts'
import { everyStore } from '../stores.ts'
import { crashFlows, STEPS } from './step-flows.ts'
import { pause } from './fleet.ts'

const KILLS = sized(15, 200)
const FLOWS = sized(40, 300)

test.each(await everyStore('kills of workflows'))(
  `${KILLS} kills on $name: every flow ends right, and few steps run twice`,
  async (store) => {
    const url = store.vacant()
    const folder = mkdtempSync(join(tmpdir(), 'sluice-steps-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const witness = join(folder, 'witness')
    const { crashed, stepped, linked } = crashFlows(witness)
    const engine = new Sluice({ store: url, tasks: [], workflows: [crashed, stepped, linked], logger: silentLogger })
    onTestFinished(() => engine.stop({ within: 0 }))
    const bodies = await crashed.startMany(Array.from({ length: FLOWS }, (_, n) => ({ n })))
    const machines = await stepped.startMany(Array.from({ length: FLOWS }, (_, sum) => ({ sum })))
    const graphs = await linked.startMany(Array.from({ length: FLOWS }, (_, n) => ({ n })))
    const random = seededRandom(7)
    const worker = async (): Promise<ChildProcess> => {
      const child = fork(new URL('./fixtures/steps-worker.ts', import.meta.url), [url, witness], { stdio: 'inherit' })
      onTestFinished(() => void child.kill('SIGKILL'))
      await once(child, 'message')
      return child
    }
    for (let kills = 0; kills < KILLS; kills++) {
      const victim = await worker()
      await pause(random.next() * 120)
      const ended = once(victim, 'exit')
      victim.kill('SIGKILL')
      await ended
    }
    const last = await worker()
    const results = await Promise.all(
      [...bodies, ...machines, ...graphs].map((flow) => flow.result({ timeout: sized(60_000, 300_000) })),
    )
    last.kill('SIGKILL')
    const ofBody = ((STEPS - 2) * (STEPS - 3)) / 2 + 2
    const ofMachine = (STEPS * (STEPS - 1)) / 2
    expect(results).toEqual(
      [ofBody, ofMachine, ofMachine].flatMap((sum) => Array.from({ length: FLOWS }, (_, n) => n + sum)),
    )
    const keys = readFileSync(witness, 'utf8').trim().split('\n')
    const repeated = keys.length - new Set(keys).size
    if (LONG) console.log(`${store.name}: ${keys.length} starts of steps, ${repeated} repeated over ${KILLS} kills`)
    expect(new Set(keys).size).toBe(3 * FLOWS * STEPS)
    // At most as many as ran at each kill.
    expect(repeated).toBeLessThanOrEqual(KILLS * 10)
  },
)
