import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../../base/clock.ts'
import { BEGAN_HEADER, JOB_HEADER } from './partner-task.ts'
import { StrictWindow } from './strict-window.ts'

/** One call as the partner logged it; times in µs of the host's monotonic clock. */
export interface PartnerLogEntry {
  readonly tenant: string
  readonly job: string
  readonly arrivedUs: number
  /** When the handler that made the call began. */
  readonly beganUs: number
  readonly refused: boolean
}

/** A partner's API on loopback, with budgets of its own. It knows nothing about Sluice's. */
export interface PartnerServer {
  readonly url: string
  /** Every call in the order of arrival. */
  readonly log: readonly PartnerLogEntry[]
  /** Calls that have arrived and not been answered. */
  readonly open: number
  close(): Promise<void>
}

/** The partner's limits. */
export interface PartnerOptions {
  readonly clock: Clock
  /** Window length, µs. */
  readonly perUs: number
  readonly totalMax: number
  /** Calls per window, by tenant. */
  readonly tenantMax: ReadonlyMap<string, number>
  /** Called for every call, once it is in the log. */
  readonly onCall: (entry: PartnerLogEntry) => void
}

const KEEP_ALIVE_MS = 120_000
const PATH = /^\/tenants\/([^/]+)\/sync$/

/** Starts the partner on a free port of 127.0.0.1. */
export async function startPartner(options: PartnerOptions): Promise<PartnerServer> {
  const log: PartnerLogEntry[] = []
  let open = 0
  const gate = new Gate(options)
  const server = createServer((request, response) => {
    // The first read of a call: a later one would count the partner's own work as jitter.
    const arrivedUs = options.clock.monotonicUs()
    const tenant = PATH.exec(request.url ?? '')?.[1]
    if (tenant === undefined || !options.tenantMax.has(tenant))
      return answer(response, tenant === undefined ? 204 : 404)
    const retryAfterUs = gate.enter(tenant, arrivedUs)
    const entry = entryOf(request, tenant, arrivedUs, retryAfterUs !== null)
    log.push(entry)
    open++
    if (retryAfterUs !== null) response.setHeader('retry-after', Math.max(1, Math.ceil(retryAfterUs / 1_000_000)))
    // The work takes a partner some time, which differs from call to call.
    options.clock.setTimer(
      () => {
        open--
        answer(response, entry.refused ? 429 : 200)
      },
      3 + ((log.length * 7) % 13),
    )
    options.onCall(entry)
  })
  // Longer than any pause of the demo: a connection that closes just as it is used again would fail a call.
  server.keepAliveTimeout = KEEP_ALIVE_MS
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    log,
    get open(): number {
      return open
    },
    close: () => close(server),
  }
}

/** The partner's budgets: one for each tenant and the total. A refused call uses neither. */
class Gate {
  readonly #total: StrictWindow
  readonly #tenants = new Map<string, StrictWindow>()

  constructor({ perUs, totalMax, tenantMax }: PartnerOptions) {
    this.#total = new StrictWindow(totalMax, perUs)
    for (const [tenant, max] of tenantMax) this.#tenants.set(tenant, new StrictWindow(max, perUs))
  }

  /** Admits a call (null), or returns in how many µs one would be admitted. */
  enter(tenant: string, nowUs: number): number | null {
    const windows = [this.#total, this.#tenants.get(tenant)].filter((each) => each !== undefined)
    const refused = Math.max(...windows.map((each) => each.refusedForUs(nowUs)))
    if (refused > 0) return refused
    for (const each of windows) each.take(nowUs)
    return null
  }
}

function entryOf(request: IncomingMessage, tenant: string, arrivedUs: number, refused: boolean): PartnerLogEntry {
  const job = String(request.headers[JOB_HEADER] ?? '')
  return { tenant, job, arrivedUs, beganUs: Number(request.headers[BEGAN_HEADER] ?? arrivedUs), refused }
}

function answer(response: ServerResponse, status: number): void {
  response.writeHead(status).end()
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
