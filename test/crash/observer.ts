import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** One start of a handler, as the other side saw it. */
export interface Start {
  readonly id: string
  readonly attempt: number
  readonly tenant: string
  readonly worker: string
  /** How old the job was when it was claimed, as its worker said. */
  readonly ageMs: number
  /** When its call arrived, in µs of this process's monotonic clock. */
  readonly atUs: number
  /** When it was answered; infinity while it is open. */
  endUs: number
}

/** Now, in µs of this process's monotonic clock. */
export function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

/** The partner that workers call: it survives them all and forgets nothing. */
export class Observer {
  readonly starts: Start[] = []
  /** The most calls that were ever open at once. */
  mostOpen = 0
  readonly #open = new Set<Start>()
  readonly #killed = new Set<string>()
  readonly #server: Server

  /** @param answer decides what a call is answered and, by when it resolves, how long the job runs. */
  constructor(answer: (start: Start) => Promise<string>) {
    this.#server = createServer((request, response) => {
      const query = new URL(request.url ?? '/', 'http://observer').searchParams
      const of = (name: string): string => query.get(name) ?? ''
      const start = {
        id: of('id'),
        attempt: Number(of('attempt')),
        tenant: of('tenant'),
        worker: of('worker'),
        ageMs: Number(of('ageMs')),
        atUs: monotonicUs(),
        endUs: Infinity,
      }
      void this.#serve(start, answer(start), response)
    })
    this.#server.keepAliveTimeout = 60_000
    onTestFinished(() => {
      this.#server.close()
      this.#server.closeAllConnections()
    })
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Its calls run no more, and those that still lie in a socket never count as running. Call it before the kill. */
  killing(worker: string): void {
    this.#killed.add(worker)
    for (const start of this.#open) if (start.worker === worker) this.#open.delete(start)
  }

  /** Whether a call of this worker is open. */
  isBusy(worker: string): boolean {
    return [...this.#open].some((start) => start.worker === worker)
  }

  /** Starts of one job, by attempt. */
  startsOf(id: string): Start[] {
    return this.starts.filter((start) => start.id === id).sort((a, b) => a.attempt - b.attempt)
  }

  async #serve(start: Start, answer: Promise<string>, response: ServerResponse): Promise<void> {
    this.starts.push(start)
    if (!this.#killed.has(start.worker)) this.#open.add(start)
    this.mostOpen = Math.max(this.mostOpen, this.#open.size)
    const text = await answer.catch(String)
    // Before the worker can know that its call has ended: so it is never counted longer than its permit was held.
    this.#open.delete(start)
    // eslint-disable-next-line no-param-reassign -- it is the record
    start.endUs = monotonicUs()
    response.end(text)
  }
}
