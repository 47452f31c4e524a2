// Throttling as events, as a histogram in the process, and through OpenTelemetry. Run: npx node examples/events-and-metrics.ts
import { context, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { BasicTracerProvider, ConsoleSpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { instrument } from '../src/exports/opentelemetry.ts'
import { createManualClock } from '../src/exports/testing.ts'

// A program sets this up once; usually @opentelemetry/sdk-node does all of it.
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
propagation.setGlobalPropagator(new W3CTraceContextPropagator())
trace.setGlobalTracerProvider(
  new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(new ConsoleSpanExporter())] }),
)

const crm = limit('crm', { rate: 1, per: '10s' })
const sync = task('tenant.sync', input<{ tenant: string }>(), {
  limits: [crm.by(({ tenant }) => tenant)],
  run: () => console.log('runs in trace', trace.getActiveSpan()?.spanContext().traceId ?? 'none'),
})

const clock = createManualClock()
const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [sync], clock, eventWindow: '30s' })
const stop = instrument(sluice)
for (const name of ['rate_limit.exceeded', 'rate_limit.throttled', 'rate_limit.released'] as const)
  sluice.on(name, ({ limit: of, key, deferred }) => console.log(name, `${of} ${key}: ${deferred} jobs deferred`))
await sluice.start()

await sync.enqueue({ tenant: 'acme' })
await clock.advance('1s')
stop()
await sync.enqueueMany(Array.from({ length: 9 }, () => ({ tenant: 'acme' })))
await clock.advance('2m')

for (const { limit: of, starts, waited, p50Ms, p99Ms, maxMs } of sluice.limits.waits())
  console.log(`${of}: ${waited} of ${starts} starts waited; p50 ${p50Ms} ms, p99 ${p99Ms} ms, longest ${maxMs} ms`)
await sluice.stop()
