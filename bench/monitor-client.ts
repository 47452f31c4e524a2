// The monitor of an engine without a socket: what an answer takes, and nothing of a network.
import { monitorHandler } from '../src/http/monitor/handler.ts'
import type { Sluice } from '../src/exports/index.ts'
import { nowMs } from './measure.ts'

/** One answered request. */
export interface MonitorCall {
  readonly status: number
  readonly ms: number
  /** The processor time of this process meanwhile. */
  readonly cpuMs: number
  readonly body: string
}

/** The monitor of an engine, with the rights of an operator. */
export interface MonitorClient {
  get(path: string): Promise<MonitorCall>
  send(method: string, path: string, body: unknown): Promise<MonitorCall>
  /** Reads the stream until `signal` aborts. Returns the bytes read. */
  read(signal: AbortSignal): Promise<number>
  close(): void
}

/** Makes the monitor of an engine. */
export function createMonitor(sluice: Sluice): MonitorClient {
  const monitor = monitorHandler({ sluice, authorize: () => ({ role: 'operator', name: 'bench' }) })
  const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
    monitor.fetch(new Request(`http://bench/monitor/v1${path}`, { headers: { 'X-Sluice-Request': '1' }, ...init }))
  const timed = async (path: string, init?: RequestInit): Promise<MonitorCall> => {
    const [before, spent] = [nowMs(), process.cpuUsage()]
    const response = await ask(path, init)
    const body = await response.text()
    const { user, system } = process.cpuUsage(spent)
    return { status: response.status, ms: nowMs() - before, cpuMs: (user + system) / 1000, body }
  }
  return {
    get: (path) => timed(path),
    send: (method, path, body) =>
      timed(path, {
        method,
        headers: { 'X-Sluice-Request': '1', 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
      }),
    async read(signal) {
      const reader = (await ask('/stream')).body?.getReader()
      let bytes = 0
      signal.addEventListener('abort', () => void reader?.cancel(), { once: true })
      for (;;) {
        const part = await reader?.read()
        if (!part || part.done) return bytes
        bytes += (part.value as Uint8Array).length
      }
    },
    close: () => monitor.close(),
  }
}
