import { readFileSync } from 'node:fs'
import { systemClock } from '../base/clock.ts'
import { createIds } from '../base/ids.ts'
import { silentLogger } from '../base/logger.ts'
import { internalsOf } from '../engine/internals.ts'
import { remoteOf } from '../remote/remote.ts'
import { Auditor } from './auditor.ts'
import { boundsOf } from './bounds.ts'
import { budgetsOf } from './budgets-of.ts'
import { EventLog } from './event-log.ts'
import { HeldOpen } from './held-open.ts'
import type { HttpOptions } from './http-options.ts'
import { LimitRules } from './limit-rules.ts'
import { Metrics } from './metrics/metrics.ts'
import { Monitor } from './monitor/monitor.ts'
import { openApi } from './open-api.ts'
import type { Operation } from './operation.ts'
import { QueueCounts } from './queue-counts.ts'
import type { Server } from './server.ts'
import { Health } from './health.ts'
import { TenantNames } from './tenant-names.ts'

/** A server, and the ends of its life. */
export interface ServerParts {
  readonly server: Server
  /** Makes it report that it takes no more requests. */
  drain(): void
  /** Ends what its answers hold open. */
  close(): void
}

/** Makes the parts that all operations of a server share. @throws {SluiceError} `option.invalid`, `policy.invalid` */
export function serverParts(
  options: Omit<HttpOptions, 'tokens' | 'isHost'>,
  operations: readonly Operation[],
  title: string,
): ServerParts {
  const { sluice, clock = systemClock, logger = silentLogger, testMode = false } = options
  const newId = createIds(clock)
  const bounds = boundsOf(options.bounds)
  const closing = new AbortController()
  let draining = false
  const version = packageVersion()
  let document: Record<string, unknown> | null = null
  const remote = remoteOf(sluice)
  const limits = new LimitRules(options.limits)
  const names = new TenantNames(remote, clock, bounds)
  const budgets = budgetsOf(options, { limits, names, remote, clock })
  const heldOpen = new HeldOpen(bounds)
  const monitor = new Monitor({ sluice, remote, clock, logger, newId, heldOpen, redact: options.redact })
  const { backend = 'sqlite' } = options
  let events: EventLog | null = null
  const server: Server = {
    budgets,
    sluice,
    remote,
    clock,
    logger,
    newId,
    get events() {
      return (events ??= new EventLog(sluice, clock, newId))
    },
    version,
    backend,
    testMode,
    startedMs: clock.now(),
    ready: () => !draining,
    serves: (path) => operations.some((each) => each.path === path),
    openApi: () => (document ??= openApi(operations, version, title)),
    auditor: new Auditor(remote, clock, logger),
    health: new Health(remote, clock, internalsOf(sluice)),
    limits,
    // A test suite needs exact counts, even on a busy machine.
    counts: new QueueCounts(remote, clock, testMode ? 0 : undefined),
    bounds,
    heldOpen,
    names,
    monitor,
    metrics: new Metrics({ sluice, remote, clock, monitor, version, backend }),
    closing: closing.signal,
  }
  return {
    server,
    drain: () => {
      draining = true
    },
    close: () => {
      draining = true
      closing.abort()
      events?.close()
      server.monitor.close()
      server.metrics.close()
      void budgets.close().catch(() => undefined)
    },
  }
}

function packageVersion(): string {
  // The manifest is two folders up, both from src/http and from dist/http.
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return (manifest as { version: string }).version
}
