// Events of the fleet between real processes: two run jobs, two listen, and one of those is killed.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { silentLogger, Sluice } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { until } from './fleet.ts'
import { noteTask } from './tasks.ts'

const FILE = fileURLToPath(new URL('fixtures/listener.ts', import.meta.url))
const stores = await everyStore('events of the fleet between processes')

describe.each(stores)('events of the fleet on $name', (kind) => {
  test('each process that listens hears each job of the others in its order, also when another one is killed', async () => {
    const store = kind.vacant()
    const workers = [await begin(store, 'run'), await begin(store, 'run')]
    const [live, doomed] = [await begin(store, 'listen'), await begin(store, 'listen')]
    const notes = noteTask()
    const caller = new Sluice({ store, tasks: [notes], logger: silentLogger })
    onTestFinished(() => caller.stop())
    const first = await notes.enqueueMany(Array.from({ length: 200 }, (_, n) => n))
    await until('both have heard all', () => [live, doomed].every((each) => each.completed === 200))
    for (const { heard } of [live, doomed]) expectLives(heard, first)
    const more = notes.enqueueMany(Array.from({ length: 200 }, (_, n) => n))
    doomed.child.kill('SIGKILL')
    await once(doomed.child, 'exit')
    const second = [...(await more), ...(await notes.enqueueMany([1, 2, 3]))]
    await until('the other one hears the rest', () => live.completed === 403)
    expectLives(live.heard, [...first, ...second])
    expect(workers.map(({ child }) => child.exitCode)).toEqual([null, null])
  })
})

/** Every job was heard to be enqueued, to start and to complete, in this order. */
function expectLives(heard: readonly (readonly [string, string])[], jobs: readonly { readonly id: string }[]): void {
  const lives = new Map<string, string[]>()
  for (const [name, id] of heard) lives.set(id, [...new Set([...(lives.get(id) ?? []), name])])
  expect(lives).toEqual(new Map(jobs.map(({ id }) => [id, ['job.enqueued', 'job.started', 'job.completed']])))
}

/** A process at work. */
async function begin(store: string, what: 'listen' | 'run') {
  const child: ChildProcess = fork(FILE, [store, what], { execArgv: ['--no-warnings'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const heard: (readonly [string, string])[] = []
  const ended = new Set<string>()
  const ready = new Promise<void>((resolve, reject) => {
    child.on('exit', () => reject(new Error('It has ended')))
    child.on('message', (message: 'ready' | [string, string]) => {
      if (message === 'ready') return resolve()
      heard.push(message)
      if (message[0] === 'job.completed') ended.add(message[1])
    })
  })
  await ready
  return {
    child,
    heard,
    get completed() {
      return ended.size
    },
  }
}
