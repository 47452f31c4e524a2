// The limits of a real API, from sluice/presets: four budgets of one API at once, and its refusal. Run it with: npx
// node examples/presets.ts
import { input, Sluice, task } from '../src/exports/index.ts'
import { xero } from '../src/exports/presets.ts'
import { createManualClock, drain } from '../src/exports/testing.ts'

const clock = createManualClock()
const { minute, day, concurrent, app } = xero('standard')
let calls = 0

/** The other side: it refuses the 70th call, as Xero would for an organisation that another app has drained. */
function answer(): { status: number; headers: Record<string, string> } {
  return ++calls === 70 ? { status: 429, headers: { 'retry-after': '30' } } : { status: 200, headers: {} }
}

const sync = task('invoice.sync', input<{ tenantId: string; invoice: number }>(), {
  limits: [minute.by('tenantId'), day.by('tenantId'), concurrent.by('tenantId'), app],
  retry: { attempts: 1 },
  async run(_, ctx) {
    await clock.sleep('200ms')
    const response = answer()
    ctx.observe(response)
    const refused = xero.refused(response, { limit: minute })
    if (refused) throw refused
  },
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [sync], clock })
sluice.on('rate_limit.dynamic_adjusted', ({ limit, key, until }) => {
  console.log(`${limit} of ${key} is closed until ${until.toISOString()}`)
})
await sluice.start()
const invoices = Array.from({ length: 120 }, (_, invoice) => ({ tenantId: invoice % 2 ? 'acme' : 'birch', invoice }))
await sync.enqueueMany([...invoices, ...invoices.slice(0, 30)])
await drain(sluice, clock)
console.log(`${calls} calls, of which one was refused; none failed`)
for (const { name, policy } of await sluice.limits.list())
  if (policy.rule?.kind === 'sliding') console.log(`${name}: ${policy.rule.max} in any ${policy.rule.periodUs / 1e6} s`)
await sluice.stop()
