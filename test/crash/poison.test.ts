// Steps that kill their process each time.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger, Sluice } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { DEADLY, poisonFlows } from './poison-flows.ts'

const stores = await everyStore('steps that kill their process')
const doors = ['machine', 'workflow', 'workflow in its slot', 'graph'].flatMap((door, at) =>
  stores.map((store) => ({ name: store.name, door, at, store })),
)

test.each(doors)(
  'a step of a $door on $name that kills its process each time fails its flow after 3 leases, and others go on',
  async ({ store, at, door }) => {
    const url = store.vacant()
    const folder = mkdtempSync(join(tmpdir(), 'sluice-poison-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const witness = join(folder, 'witness')
    const flows = poisonFlows(witness)
    const engine = new Sluice({ store: url, tasks: [], workflows: flows, logger: silentLogger })
    onTestFinished(() => engine.stop({ within: 0 }))
    const deadly = await flows[at]!.start({ bad: true })
    const good = await flows[at]!.startMany(Array.from({ length: 5 }, () => ({ bad: false })))
    let killed = 0
    const over = { reached: false }
    const end = deadly.result({ timeout: '60s' }).then(
      () => null,
      (error: unknown) => error,
    )
    void end.finally(() => (over.reached = true))
    while (!over.reached) {
      const child = fork(new URL('./fixtures/poison-worker.ts', import.meta.url), [url, witness], { stdio: 'inherit' })
      onTestFinished(() => void child.kill('SIGKILL'))
      if (await Promise.race([once(child, 'exit').then(() => true), end.then(() => false)])) killed++
    }
    const error = await end
    expect(error).toMatchObject({ code: 'flow.failed', reason: 'lease.lost' })
    expect(String(error)).toContain(door === 'graph' ? 'in the step deadly.' : `in the step ${DEADLY}.`)
    for (const flow of good) await flow.result({ timeout: '60s' })
    const starts = readFileSync(witness, 'utf8').trim().split('\n')
    const bad = starts.filter((line) => line.startsWith('bad'))
    expect({ killed, bad: bad.length, keys: new Set(bad).size }).toEqual({ killed: 3, bad: 3, keys: 1 })
  },
)
