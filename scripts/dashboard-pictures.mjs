// Draws each page of the dashboard in both themes into docs/operate/dashboard/, over the data of a service at work. WebP
// keeps each picture below 60 kB.
// Run it with: npm run build && npx node scripts/dashboard-pictures.mjs
import { serve } from '@hono/node-server'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
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
const QUALITY = 82

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
await (
  await fetch(`${base}/monitor/v1/bulk`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-sluice-request': '1' },
    body: JSON.stringify({
      action: 'cancel',
      filter: { task: 'tenant.sync', tag: 'free' },
      reason: 'they left the free plan',
    }),
  })
).text()
// The last in the longest line waits until all pictures are drawn.
const waiting = (await sluice.jobs.list({ states: ['available'], limitName: 'crm', limitKey: 'acme', limit: 1 }))[0]
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
const devtools = await context.newCDPSession(page)
const draw = async (name) => {
  const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY })
  writeFileSync(`${OUT}${name}.webp`, Buffer.from(data, 'base64'))
}
for (const [name, path] of pages) {
  for (const theme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme: theme })
    await page.goto(`${base}${path}`)
    await sleep(SETTLED_MS)
    await draw(`${name}-${theme}`)
  }
}
await page.setViewportSize({ width: 375, height: 760 })
await page.emulateMedia({ colorScheme: 'light' })
for (const [name, path] of pages.filter(([each]) => each === 'limits' || each === 'job')) {
  await page.goto(`${base}${path}`)
  await sleep(SETTLED_MS)
  await draw(`${name}-phone`)
}
await context.close()
dashboard.close()
server.close()
await sluice.stop({ within: 0 })
rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
