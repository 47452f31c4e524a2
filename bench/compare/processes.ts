import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { News, Wait, WorkerOrder } from './worker.ts'

/** The worker processes of one measurement. */
export class WorkerProcesses {
  readonly waits: Wait[] = []
  readonly startsUs: number[] = []
  ran = 0
  firstUs: number = Infinity
  lastUs = 0
  readonly #children: ChildProcess[] = []
  #until: { readonly count: number; readonly reached: () => void } | null = null

  /** Starts the worker processes, and resolves once all are ready. */
  static async start(order: WorkerOrder, processes: number): Promise<WorkerProcesses> {
    const workers = new WorkerProcesses()
    for (let i = 0; i < processes; i++) {
      const child = fork(join(import.meta.dirname, 'worker.ts'), [JSON.stringify(order)], {
        execArgv: [],
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      })
      workers.#children.push(child)
      child.on('message', (news: News) => workers.#hear(news))
    }
    await Promise.all(workers.#children.map((child) => heard(child, 'ready')))
    return workers
  }

  /** Lets them start, and resolves once all are running. */
  async go(): Promise<void> {
    const working = this.#children.map((child) => heard(child, 'working'))
    for (const child of this.#children) child.send('go')
    await Promise.all(working)
  }

  /** Resolves once they have run `count` jobs; false if that takes longer than `withinMs`. */
  async done(count: number, withinMs: number): Promise<boolean> {
    if (this.ran >= count) return true
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), withinMs)
      this.#until = {
        count,
        reached: () => {
          clearTimeout(timer)
          resolve(true)
        },
      }
    })
  }

  async stop(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      const closed = once(child, 'exit')
      child.send('stop')
      const timer = setTimeout(() => child.kill('SIGKILL'), 10_000)
      await closed
      clearTimeout(timer)
    }
  }

  #hear(news: News): void {
    if (news.kind !== 'ran') return
    this.ran += news.count
    this.firstUs = Math.min(this.firstUs, news.firstUs)
    this.lastUs = Math.max(this.lastUs, news.lastUs)
    this.waits.push(...news.waits)
    this.startsUs.push(...news.startsUs)
    if (this.#until && this.ran >= this.#until.count) this.#until.reached()
  }
}

function heard(child: ChildProcess, kind: News['kind']): Promise<void> {
  return new Promise((resolve, reject) => {
    const listen = (news: News): void => {
      if (news.kind !== kind) return
      child.off('message', listen)
      resolve()
    }
    child.on('message', listen)
    child.once('exit', () => reject(new Error(`a worker process ended before it was ${kind}`)))
  })
}
