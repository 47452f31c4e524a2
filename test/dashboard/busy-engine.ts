// A service at work, as the dashboard shows it: tenants with backlogs, failures, schedules and flows of every state.
import { setTimeout as sleep } from 'node:timers/promises'
import { graph, workflow } from '../../src/exports/flows.ts'
import { type Clock, input, limit, NonRetryable, silentLogger, Sluice, task } from '../../src/exports/index.ts'

export const TENANTS: readonly string[] = ['acme', 'birch', 'cedar', 'dogwood', 'elm', 'fir']
/** A name as long as a name may reasonably be, without a place to break it. */
export const LONG_NAME: string = `tenant-${'long-name-'.repeat(12)}end`

const crm = limit('crm', { window: 'sliding', max: 30, per: '1m' })
const outbound = limit('outbound', { rate: 50, per: '1s', concurrency: 20 })
const mail = limit('mail', { rate: 120, per: '1m', burst: 10 })
const model = limit('model', { rate: 2, per: '1s', burst: 2 })
const nightly = limit('reports', { concurrency: 2 })

const syncTenant = task('tenant.sync', input<{ tenant: string; since?: string; token?: string }>(), {
  limits: [crm.by((call) => call.tenant), outbound],
  retry: { attempts: 3, initial: '1s' },
  run: async ({ tenant }, ctx) => {
    ctx.logger.info({ tenant }, 'asked the CRM for what changed')
    await sleep(20)
    return { tenant, changed: 3, contacts: ['ada', 'grace'] }
  },
})

const sendMail = task('mail.send', input<{ to: string; template: string }>(), {
  queue: 'mail',
  limits: [mail],
  retry: { attempts: 2, initial: '1m' },
  run: async ({ to }) => {
    await sleep(5)
    if (to.startsWith('nobody')) throw new Error(`550 mailbox unavailable: ${to}`)
    return { accepted: true }
  },
})

const report = task('report.build', input<{ month: string }>(), {
  queue: 'reports',
  limits: [nightly],
  run: async ({ month }, ctx) => {
    await sleep(60_000, undefined, { signal: ctx.signal }).catch(() => undefined)
    return month
  },
})

const charge = task('card.charge', input<{ customer: string; cents: number }>(), {
  queue: 'payments',
  retry: { attempts: 1 },
  run: ({ customer }) => {
    throw new NonRetryable(`card declined: customer ${customer}`, { cause: new Error('do_not_honor') })
  },
})

const onboard = workflow('tenant.onboard', input<{ tenant: string }>(), {
  key: ({ tenant }) => tenant,
  signals: { approved: input<{ by: string }>() },
  run: async ({ tenant }, flow) => {
    await flow.step('create account', () => ({ account: `acc_${tenant}` }))
    await flow.step('import contacts', { limits: [model] }, () => 17)
    const approval = await flow.signal('approved', { within: '7d' })
    return { tenant, by: approval?.by ?? null }
  },
})

const welcome = workflow('tenant.welcome', input<{ tenant: string }>(), {
  run: ({ tenant }, flow) => flow.step('greet', () => `hello ${tenant}`),
})

const openRegion = workflow('region.open', input<{ region: string }>(), {
  run: async ({ region }, flow) => {
    for (const tenant of ['gum', 'holly']) await flow.child(`welcome ${tenant}`, welcome, { tenant })
    return region
  },
})

const broken = workflow('invoice.issue', input<{ invoice: string }>(), {
  run: async ({ invoice }, flow) => {
    await flow.step('number', () => `2026-${invoice}`)
    await flow.step('send', { retry: { attempts: 1 } }, () => {
      throw new NonRetryable('the tax office answered 503')
    })
  },
})

const review = graph('code.review', input<{ pr: number }>())
  .step('diff', ({ input: { pr } }) => ({ files: [`${pr}/a.ts`, `${pr}/b.ts`] }))
  .after('diff')
  .step('lint', { limits: [model] }, ({ diff }) => ({ issues: diff.files.length }))
  .after('diff')
  .step('summary', { limits: [model] }, ({ diff }) => `${diff.files.length} files`)
  .after('lint', 'summary')
  .step('post', ({ lint, summary }) => ({ issues: lint.issues, summary }))
  .output(({ post }) => post)

/** An engine with all of them. */
export function busyEngine(store: string, clock?: Clock): Sluice {
  return new Sluice({
    store,
    tasks: [syncTenant, sendMail, report, charge],
    workflows: [onboard, welcome, openRegion, broken, review],
    limits: [crm, outbound, mail, model, nightly],
    queues: {
      default: { concurrency: 20 },
      mail: { concurrency: 10 },
      reports: { concurrency: 4 },
      payments: { concurrency: 2 },
    },
    logger: silentLogger,
    ...(clock && { clock }),
  })
}

/** Fills a started engine with work that waits, runs, failed and comes again. */
export async function fill(sluice: Sluice, jobs = 1): Promise<void> {
  await sluice.schedule(
    sendMail,
    { to: 'team@example.com', template: 'digest' },
    { cron: '0 8 * * 1-5', timezone: 'Europe/Paris', name: 'weekday digest' },
  )
  await sluice.schedule(syncTenant, { tenant: 'acme' }, { every: '15m', name: 'sync acme' })
  await sluice.schedule(report, { month: 'last' }, { cron: '30 2 1 * *', name: 'monthly report' })
  for (const [n, tenant] of TENANTS.entries())
    await syncTenant.enqueueMany(
      Array.from({ length: jobs * (n === 0 ? 90 : 45 - 5 * n) }, (_, at) => ({
        tenant,
        since: `2026-01-${(at % 28) + 1}`,
        token: 'sk_live_123',
      })),
      { tags: [n % 2 === 0 ? 'paid' : 'free'], meta: { region: 'eu', tenant } },
    )
  await syncTenant.enqueueMany(Array.from({ length: 40 }, () => ({ tenant: LONG_NAME })))
  await sendMail.enqueueMany(
    Array.from({ length: jobs * 150 }, (_, n) => ({
      to: `${n % 10 === 0 ? 'nobody' : 'ada'}+${n}@example.com`,
      template: 'welcome',
    })),
  )
  await report.enqueueMany(Array.from({ length: 6 }, (_, n) => ({ month: `2026-0${n + 1}` })))
  await charge.enqueueMany(Array.from({ length: 8 }, (_, n) => ({ customer: `cus_${n}`, cents: 1900 })))
  await syncTenant.enqueue({ tenant: 'later' }, { delay: '2h' })
  for (const tenant of ['acme', 'birch', 'cedar']) await onboard.start({ tenant })
  await openRegion.start({ region: 'north' })
  await broken.start({ invoice: '0042' })
  for (const pr of [17, 18, 19, 20, 21, 22]) await review.start({ pr })
}

/** Enqueues one job of a tenant; answers its id. */
export async function enqueueSync(tenant: string, meta: Record<string, string> = {}): Promise<string> {
  return (await syncTenant.enqueue({ tenant }, { meta })).id
}

/** Enqueues one mail; answers its id. */
export async function enqueueMail(to: string, template: string, queue?: string): Promise<string> {
  return (await sendMail.enqueue({ to, template }, queue === undefined ? {} : { queue })).id
}

/** Enqueues a job of a tenant for later; answers its id. */
export async function enqueueLater(tenant: string): Promise<string> {
  return (await syncTenant.enqueue({ tenant }, { delay: '1h' })).id
}
