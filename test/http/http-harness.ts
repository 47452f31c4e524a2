import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { createHttpApp, type HttpApp, type HttpOptions } from '../../src/exports/http.ts'
import { silentLogger, Sluice, type SluiceOptions } from '../../src/exports/index.ts'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'

/** A JSON object of an answer. */
export interface Json {
  readonly [name: string]: any // oxlint-disable-line typescript/no-explicit-any -- answers are looked into, not typed
}

/** An answer, read. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Json
}

/** Headers of a request, and what else it says of itself. */
export interface Sending {
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** One server on a manual clock: requests go straight to its `fetch`. */
export class HttpHarness {
  readonly clock: ManualClock
  readonly sluice: Sluice
  readonly app: HttpApp
  readonly #startMs: number

  private constructor(sluice: Sluice, app: HttpApp, clock: ManualClock, startMs: number) {
    this.sluice = sluice
    this.app = app
    this.clock = clock
    this.#startMs = startMs
  }

  /** A server at work, stopped when the test has finished. */
  static async open(
    options: {
      readonly engine?: Partial<SluiceOptions>
      readonly http?: Partial<HttpOptions>
      readonly clock?: ManualClock
    } = {},
  ): Promise<HttpHarness> {
    const clock = options.clock ?? createManualClock({ start: Date.UTC(2026, 0, 1) })
    const sluice = new Sluice({
      store: 'sqlite::memory:',
      tasks: [],
      queues: {},
      clock,
      logger: silentLogger,
      ...options.engine,
    })
    await sluice.start()
    const app = createHttpApp({ sluice, clock, ...options.http })
    const harness = new HttpHarness(sluice, app, clock, clock.now())
    onTestFinished(() => harness.close())
    return harness
  }

  /** Seconds since it was opened. */
  get at(): number {
    return (this.clock.now() - this.#startMs) / 1000
  }

  async close(): Promise<void> {
    this.app.close()
    await this.sluice.stop({ within: 0 })
  }

  async send(method: string, path: string, body?: unknown, { headers = {}, signal }: Sending = {}): Promise<Answer> {
    const response = await this.app.fetch(
      new Request(`http://server${path}`, {
        method,
        headers: { ...(body !== undefined && { 'Content-Type': 'application/openjobspec+json' }), ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(signal && { signal }),
      }),
    )
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      body: text.startsWith('{') ? (JSON.parse(text) as Json) : {},
    }
  }

  get(path: string, sending?: Sending): Promise<Answer> {
    return this.send('GET', path, undefined, sending)
  }

  post(path: string, body: unknown, sending?: Sending): Promise<Answer> {
    return this.send('POST', path, body, sending)
  }

  /** Stores a job of type `work` in the queue `q`, and answers its id. */
  async push(options: Json = {}, more: Json = {}, sending?: Sending): Promise<string> {
    const body = { type: 'work', args: [1], ...more, options: { queue: 'q', ...options } }
    const { status, body: answer } = await this.post('/ojs/v1/jobs', body, sending)
    if (status >= 300) throw new Error(`a push was refused: ${JSON.stringify(answer)}`)
    return answer['job'].id as string
  }

  /** Takes jobs; answers their ids. */
  async fetch(more: Json = {}, sending?: Sending): Promise<string[]> {
    const { status, body } = await this.post(
      '/ojs/v1/workers/fetch',
      { queues: ['q'], worker_id: 'w', ...more },
      sending,
    )
    if (status !== 200) throw new Error(`a fetch was refused: ${JSON.stringify(body)}`)
    return (body['jobs'] as Json[]).map((job) => job['id'] as string)
  }

  ack(id: string, more: Json = {}): Promise<Answer> {
    return this.post('/ojs/v1/workers/ack', { job_id: id, ...more })
  }

  nack(id: string, error: Json = {}, more: Json = {}): Promise<Answer> {
    const failure = { code: 'handler_error', message: 'no', ...error }
    return this.post('/ojs/v1/workers/nack', { job_id: id, error: failure, ...more })
  }

  async job(id: string): Promise<Json> {
    return (await this.get(`/ojs/v1/jobs/${id}`)).body['job'] as Json
  }

  /** Workers that fetch with a wait and acknowledge at once, until the test has finished; answers their starts: what, and when in s. */
  work(
    queues: readonly string[],
    { workers = 1, count = 10, tenant = '' }: { workers?: number; count?: number; tenant?: string } = {},
  ): { id: string; arg: unknown; at: number }[] {
    const starts: { id: string; arg: unknown; at: number }[] = []
    const headers: Record<string, string> = tenant === '' ? {} : { 'X-OJS-Tenant': tenant }
    const over = new AbortController()
    const loop = async (worker: string): Promise<void> => {
      while (!over.signal.aborted) {
        const { body } = await this.post(
          '/ojs/v1/workers/fetch',
          { queues, count, worker_id: worker, wait: 'PT60S' },
          { headers, signal: over.signal },
        )
        for (const job of (body['jobs'] ?? []) as Json[]) {
          starts.push({ id: job['id'], arg: job['args'][0], at: this.at })
          await this.post('/ojs/v1/workers/ack', { job_id: job['id'], worker_id: worker }, { headers })
        }
      }
    }
    const loops = Array.from({ length: workers }, (_, i) => loop(`worker-${i}`))
    onTestFinished(async () => {
      over.abort()
      await Promise.all(loops)
    })
    return starts
  }
}

/** A file for a store, gone when the test has finished. */
export function storeFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-http-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return `sqlite:${join(folder, 'jobs.db')}`
}
