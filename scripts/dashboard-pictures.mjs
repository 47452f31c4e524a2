// Draws each page of the dashboard in both themes into docs/operate/dashboard/, over the data of a service at work.
// Run it with: npm run build && npx node scripts/dashboard-pictures.mjs
import { serve } from '@hono/node-server'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { createDashboard } from '../src/exports/dashboard.ts'
import { busyEngine, fill } from '../test/dashboard/busy-engine.ts'

const OUT = fileURLToPath(new URL('../docs/operate/dashboard/', import.meta.url))
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking']
/** Long enough for the first figures of the series. */
const AT_WORK_MS = Number(process.env.AT_WORK_MS ?? 45_000)
const SETTLED_MS = 1500

const folder = mkdtempSync(join(tmpdir(), 'sluice-pictures-'))
const sluice = busyEngine(`sqlite:${join(folder, 'jobs.db')}`)
await sluice.start()
await fill(sluice, 2)
await sleep(AT_WORK_MS)
await sluice.limits.override(
  'crm',
  'birch',
  { max: 45 },
  { until: '2h', by: 'ada', reason: 'they gave us more for the import' },
)
const dashboard = createDashboard({ sluice, authorize: () => ({ role: 'operator', name: 'ada' }) })
const server = serve({ fetch: dashboard.fetch, hostname: '127.0.0.1', port: 0 })
await new Promise((listens) => server.once('listening', listens))
const base = `http://127.0.0.1:${server.address().port}/dashboard`
const jobs = await sluice.jobs.list({ states: ['available'], limit: 1000 })
const waiting = jobs.find(({ task }) => task === 'tenant.sync') ?? jobs[0]
const [flow] = await sluice.flows.list({ workflow: 'tenant.onboard' })
const pages = [
  ['overview', ''],
  ['limits', '/limits'],
  ['limit', '/limits/crm'],
  ['key', '/limits/crm/keys/acme'],
  ['jobs', '/jobs'],
  ['job', `/jobs/${waiting.id}`],
  ['flows', '/flows'],
  ['flow', `/flows/${flow.id}`],
  ['queues', '/queues'],
  ['schedules', '/schedules'],
  ['workers', '/workers'],
  ['tasks', '/tasks'],
  ['bulk', '/bulk'],
  ['audit', '/audit'],
]

mkdirSync(OUT, { recursive: true })
const context = await chromium.launchPersistentContext(join(folder, 'profile'), {
  executablePath: process.env.SLUICE_TEST_CHROMIUM ?? '/usr/bin/chromium',
  headless: true,
  args: FLAGS,
  viewport: { width: 1280, height: 800 },
  locale: 'en-GB',
  timezoneId: 'UTC',
})
const page = await context.newPage()
const answered = new Set((await (await fetch(`${base}/openapi.json`)).text()).match(/"\/monitor\/v1\/[a-z]+"/g))
for (const [name, path] of pages) {
  if ((name === 'tasks' || name === 'bulk') && !answered.has(`"/monitor/v1/${name}"`)) continue
  for (const theme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme: theme })
    await page.goto(`${base}${path}`)
    await sleep(SETTLED_MS)
    await page.screenshot({ path: `${OUT}${name}-${theme}.png` })
  }
}
await page.setViewportSize({ width: 375, height: 760 })
await page.emulateMedia({ colorScheme: 'light' })
for (const [name, path] of pages.filter(([each]) => each === 'limits' || each === 'job')) {
  await page.goto(`${base}${path}`)
  await sleep(SETTLED_MS)
  await page.screenshot({ path: `${OUT}${name}-phone.png` })
}
await context.close()
dashboard.close()
server.close()
await sluice.stop({ within: 0 })
rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
