// The README's quick start, against a server of its own on loopback. Run it with: npx node examples/quickstart.ts
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { input, limit, RateLimited, Sluice, task } from '../src/exports/index.ts'
import { workflow } from '../src/exports/flows.ts'

const server = createServer((_, reply) => reply.end('ok')).listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const folder = mkdtempSync(join(tmpdir(), 'sluice-quickstart-'))

const crm = limit('crm', { window: 'sliding', max: 15, per: '1m', guard: '100ms' })
const outbound = limit('outbound', { rate: 50, per: '1s', concurrency: 20 })

const syncTenant = task('tenant.sync', input<{ tenantId: string }>(), {
  limits: [crm.by((job) => job.tenantId), outbound],
  retry: { attempts: 3, backoff: 'exponential', initial: '1s' },
  timeout: '30s',
  async run({ tenantId }, ctx) {
    const reply = await fetch(`${url}/sync/${tenantId}`, { signal: ctx.signal })
    if (reply.status === 429) throw RateLimited.from(reply)
    return { status: reply.status }
  },
})

const onboard = workflow('tenant.onboard', input<{ tenantId: string }>(), {
  run: ({ tenantId: id }, flow) => flow.step('greet', { limits: [crm.key(id)] }, () => `hi ${id}`),
})

const store = `sqlite:${join(folder, 'sluice.db')}`
const sluice = new Sluice({ store, tasks: [syncTenant], workflows: [onboard] })
await sluice.start()

const job = await syncTenant.enqueue({ tenantId: 'acme' }, { priority: 5 })
console.log(await job.result())
console.log(await (await onboard.start({ tenantId: 'birch' })).result())
console.log(await sluice.limits.inspect('crm', 'acme'))

await sluice.stop()
server.closeAllConnections()
server.close()
rmSync(folder, { recursive: true })
