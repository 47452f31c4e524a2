import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { SluiceError } from '../../base/errors.ts'
import type { SharedBudgets } from './shared-budgets.ts'

/** The settings of a worker process. */
export interface WorkerProcessOptions {
  readonly store: string
  readonly partnerUrl: string
  /** Calls at once. */
  readonly concurrency: number
  readonly guardMs: number
  /** Null: the store keeps the budgets. */
  readonly shared: SharedBudgets | null
}

/** A running worker process of the demo. */
export interface WorkerProcess {
  /** When it began to claim, in µs of the host's monotonic clock. */
  readonly readyUs: number
  /** Rejects if the process ends without a stop; otherwise never settles. */
  readonly died: Promise<never>
  /** Stops the worker after its running jobs, and waits for its end. */
  stop(): Promise<void>
  /** Kills it with SIGKILL, and waits until the system has it gone. */
  kill(): Promise<void>
}

/** Starts a worker process on this store, and waits until it runs. @throws {SluiceError} `demo.broken` */
export async function startWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const { store, partnerUrl, concurrency, guardMs, shared } = options
  const child = fork(ownFile(), [store, partnerUrl, String(concurrency), String(guardMs), JSON.stringify(shared)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  let expected = false
  const exited = once(child, 'exit')
  const died = exited.then(([code, signal]): Promise<never> => {
    if (expected) return new Promise(() => undefined)
    throw new SluiceError(
      'demo.broken',
      `The worker process ended by itself (${String(signal ?? code)}); see its messages above.`,
    )
  })
  died.catch(() => undefined)
  const [message] = (await Promise.race([once(child, 'message'), died])) as [{ readyUs: number }]
  const end = async (by: () => void): Promise<void> => {
    expected = true
    if (isRunning(child)) by()
    await exited
  }
  return {
    readyUs: message.readyUs,
    died,
    stop: () => end(() => child.send('stop')),
    kill: () => end(() => child.kill('SIGKILL')),
  }
}

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}

/** The worker as source or as built, whichever this file is. */
function ownFile(): URL {
  return import.meta.url.endsWith('.ts')
    ? new URL('./worker.ts', import.meta.url)
    : new URL('./worker.js', import.meta.url)
}
