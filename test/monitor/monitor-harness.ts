// A monitor without a server for workers, as an application mounts it, beside an engine on a manual clock.
import { onTestFinished } from 'vitest'
import { type Grant, type MonitorHandler, monitorHandler, type MonitorOptions } from '../../src/http/monitor/handler.ts'
import { MONITOR_ROUTES } from '../../src/http/monitor/routes.ts'
import { silentLogger, Sluice, type SluiceOptions } from '../../src/exports/index.ts'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'
import type { Json } from '../http/http-harness.ts'

/** An answer, read. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Json
}

/** A monitor on an engine of its own. */
export class MonitorHarness {
  readonly clock: ManualClock
  readonly sluice: Sluice
  readonly monitor: MonitorHandler
  /** The rights of the next requests. */
  grant: Grant | null = { role: 'operator', name: 'ann' }

  private constructor(options: Partial<SluiceOptions>, monitor: Partial<MonitorOptions>) {
    this.clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    this.sluice = new Sluice({
      store: 'sqlite::memory:',
      tasks: [],
      clock: this.clock,
      logger: silentLogger,
      ...options,
    })
    this.monitor = monitorHandler({ sluice: this.sluice, authorize: () => this.grant, clock: this.clock, ...monitor })
    onTestFinished(async () => {
      this.monitor.close()
      await this.sluice.stop({ within: 0 })
    })
  }

  /** An engine at work, and its monitor. */
  static async open(
    engine: Partial<SluiceOptions> = {},
    monitor: Partial<MonitorOptions> = {},
  ): Promise<MonitorHarness> {
    const harness = new MonitorHarness(engine, monitor)
    await harness.sluice.start()
    // A store on PostgreSQL listens to others from some moment on, and tells then that anything may have changed.
    await harness.clock.advance(0)
    return harness
  }

  /** Sends a request behind `/monitor/v1`. Every success has to be what its operation describes. */
  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const response = await this.monitor.fetch(
      new Request(`http://app/monitor/v1${path}`, {
        method,
        headers: {
          'X-Sluice-Request': '1',
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
    )
    // A stream ends only when its reader leaves.
    if (response.headers.get('content-type') === 'text/event-stream') {
      await response.body?.cancel()
      return { status: response.status, headers: response.headers, body: {} }
    }
    const text = await response.text()
    const found = JSON.parse(text) as Json
    if (response.status < 300) requireDescribed(method, path, found)
    return { status: response.status, headers: response.headers, body: found }
  }

  async get(path: string): Promise<Json> {
    const { status, body } = await this.send('GET', path)
    if (status !== 200) throw new Error(`GET ${path} was refused: ${JSON.stringify(body)}`)
    return body
  }
}

function requireDescribed(method: string, path: string, body: unknown): void {
  const asked = `/monitor/v1${path}`.replace(/\?.*$/, '').split('/')
  const route = MONITOR_ROUTES.find((each) => {
    const parts = each.path.split('/')
    const fits = (part: string, i: number): boolean => part.startsWith(':') || part === asked[i]
    return each.method === method && parts.length === asked.length && parts.every(fits)
  })
  const read = route?.answer?.safeParse(body)
  if (!read?.success) throw new Error(`${method} ${path} answers not what it describes: ${read?.error.message}`)
}
