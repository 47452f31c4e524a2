import { z } from 'zod'
import * as v from 'valibot'
import { type as ark } from 'arktype'
import { Sluice, limit, task, input, RateLimited, type Limit } from '../../src/exports/index.ts'
const url = 'http://127.0.0.1'

const crm = limit('crm', { rate: 15, per: '1m' })
const llm = limit('llm', { window: 'sliding', max: 60, per: '1m', concurrency: 4 })
const tpm = limit('llm-tokens', { rate: 90_000, per: '1m' })

const syncTenant = task('tenant.sync', z.object({ tenantId: z.string() }), {
  limits: [crm.by((input) => input.tenantId), llm],
  retry: { attempts: 3, backoff: 'exponential', initial: '1s' },
  timeout: '30s',
  async run({ tenantId }, ctx) {
    const reply = await fetch(url + tenantId, { signal: ctx.signal })
    if (reply.status === 429) throw RateLimited.from(reply)
    return { rows: 3, at: new Date(), tenantId }
  },
})
const sluice = new Sluice({ store: 'sqlite:./sluice.db', tasks: [syncTenant] })
await sluice.start()
const job = await syncTenant.enqueue({ tenantId: 'acme' }, { priority: 5, unique: 'acme' })
const result = await job.result()
const rows: number = result.rows, at: string = result.at       // a Date came back as text, and the type says so
// @ts-expect-error result is fully typed, not any
result.nope
// @ts-expect-error the date is a string
result.at.getTime()
await sluice.stop()

// weights by input, inline limits, destructuring, other schema libraries, transforms, no schema, no input, heterogeneous list
const chat = task('llm.chat', v.object({ apiKey: v.string(), estimate: v.number() }), {
  limits: [llm, tpm.by(({ apiKey }) => apiKey, { weight: (input) => input.estimate }), { rate: 15, per: '1m', by: (input) => input.apiKey }, { every: '100ms' }],
  async run(job, ctx) { ctx.charge(tpm, 100 - job.estimate); return 'text' as string },
})
const dated = task('dated', z.object({ on: z.string().transform((s) => new Date(s)) }), { limits: [crm.by((input) => input.on.toISOString())], run: (input) => input.on.getTime() })
await dated.enqueue({ on: '2026-01-01' })                       // input type of the schema in, output type in the handler
const withArk = task('ark', ark({ n: 'number' }), { limits: [crm.by((input) => input.n)], run: async (input) => input.n + 1 })
const typed = task('typed', input<{ tenantId: string }>(), { limits: [crm.by((input) => input.tenantId)], run: async (input) => input.tenantId.length })
const ping = task('ping', { limits: [llm], run: async () => 1 })
await ping.enqueue(); await ping.enqueue(undefined, { delay: '5s' })
const n: number = await (await sluice.enqueue(withArk, { n: 1 })).result()
new Sluice({ store: 'sqlite::memory:', tasks: [syncTenant, chat, dated, withArk, typed, ping], limits: [crm, llm], queues: { default: { concurrency: 10, limits: [llm] } } })
const shared = crm.by((job: { tenantId: string }) => job.tenantId)
task('a', input<{ tenantId: string; more: number }>(), { limits: [shared], run() { return 1 } })
const s: string = await (await chat.enqueue({ apiKey: 'k', estimate: 1 }, { limits: [crm.key('acme', { weight: 2 })] })).result()
const anyLimit: Limit = crm

// what must be refused
// @ts-expect-error no such field
task('x', input<{ tenantId: string }>(), { limits: [crm.by((input) => input.tenant)], run: () => 1 })
// @ts-expect-error a key is a string or a number
task('x', input<{ tenantId: string }>(), { limits: [crm.by((job) => job)], run: () => 1 })
// @ts-expect-error the shared use wants tenantId
task('x', input<{ other: string }>(), { limits: [shared], run: () => 1 })
// @ts-expect-error a duration with no unit that we know
limit('x', { rate: 1, per: '1x' })
// @ts-expect-error a misspelt option
limit('x', { rate: 1, per: '1s', burts: 2 })
// @ts-expect-error rate and window share `per`: two limits
limit('x', { rate: 1, window: 'sliding', max: 5, per: '1s' })
// @ts-expect-error wrong input
await syncTenant.enqueue({ tenant: 'acme' })
// @ts-expect-error input is required
await syncTenant.enqueue()
// @ts-expect-error a misspelt task option
task('x', input<{ tenantId: string }>(), { limts: [crm], run: () => 1 })
void [rows, at, n, s, anyLimit]
// inference does not depend on `run` taking parameters, nor on the order of the options
task('p', input<{ tenantId: string }>(), { limits: [crm.by((input) => input.tenantId)], run: () => 1 })
task('q', z.object({ tenantId: z.string() }), { run: async ({ tenantId }) => tenantId, limits: [crm.by((input) => input.tenantId), { window: 'fixed', max: 5, per: '1d', timezone: 'Europe/Paris', by: ({ tenantId }) => tenantId }] })
