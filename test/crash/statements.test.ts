// Processes that are killed inside their transactions, not only between two of them.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { seededRandom, silentLogger, Sluice } from '../../src/exports/index.ts'
import { sized } from '../sized.ts'
import { everyStore } from '../stores.ts'
import { familyFlows, STEPS_OF_ALL } from './family-flows.ts'

const KILLS = sized(12, 200)
const FLOWS = sized(6, 40)
const SLOTS = 4

test.each(await everyStore('kills inside transactions'))(
  `${KILLS} processes that are killed at one of their statements on $name: no flow, step or child is lost or comes twice`,
  async (store) => {
    const url = store.vacant()
    const folder = mkdtempSync(join(tmpdir(), 'sluice-statements-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const witness = join(folder, 'witness')
    const { all, doors } = familyFlows(witness)
    const engine = new Sluice({ store: url, tasks: [], workflows: all, logger: silentLogger })
    onTestFinished(() => engine.stop({ within: 0 }))
    const inputs = Array.from({ length: FLOWS }, (_, n) => ({ n }))
    const flows = (await Promise.all(doors.map((door) => door.startMany(inputs)))).flat()
    const random = seededRandom(5)
    const worker = (statements: number): ChildProcess => {
      const given = [url, witness, String(statements)]
      const child = fork(new URL('./fixtures/dying-worker.ts', import.meta.url), given, { stdio: 'inherit' })
      onTestFinished(() => void child.kill('SIGKILL'))
      return child
    }
    const ends = Promise.all(flows.map((flow) => flow.result({ timeout: '20m' })))
    const over = ends.then(() => 'over')
    let kills = 0
    for (; kills < KILLS; kills++) {
      const victim = worker(1 + Math.floor(random.next() ** 2 * (store.name === 'sqlite' ? 300 : 60)))
      if ((await Promise.race([over, once(victim, 'exit')])) === 'over') break
    }
    worker(0)
    const results = await ends
    expect(results).toEqual(doors.flatMap(() => inputs.map(({ n }) => n)))
    const keys = readFileSync(witness, 'utf8').trim().split('\n')
    expect(new Set(keys).size).toBe(FLOWS * STEPS_OF_ALL)
    // On PostgreSQL the runs that fill the slots begin beside the writing of the ends before them.
    const open = store.name === 'sqlite' ? SLOTS : 2 * SLOTS
    expect(keys.length - new Set(keys).size).toBeLessThanOrEqual(kills * open)
    // On PostgreSQL the ends of jobs are applied to their flows a moment later.
    const unfinished = async () =>
      (await engine.flows.list({ limit: 1000 })).filter(({ state }) => state !== 'completed')
    await expect.poll(unfinished).toEqual([])
    // Else the kills met no work.
    expect(kills).toBeGreaterThan(KILLS / 3)
  },
)
