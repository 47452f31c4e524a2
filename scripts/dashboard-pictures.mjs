// Draws each page of the dashboard in both themes into docs/operate/dashboard/, over the data of a service that has been
// at work for a quarter of an hour, and the picture of the README. It takes about five minutes. Run it with: npm run build && npx node scripts/dashboard-pictures.mjs
import { serve } from '@hono/node-server'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { createDashboard } from '../src/exports/dashboard.ts'
import { busyEngine, enqueueMail, enqueueSync, fill, TENANTS } from '../test/dashboard/busy-engine.ts'
import { hurriedClock } from './hurried-clock.mjs'

const OUT = fileURLToPath(new URL('../docs/operate/dashboard/', import.meta.url))
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking']
const README_PICTURE = fileURLToPath(new URL('../docs/start/dashboard.webp', import.meta.url))
/** The charts show the last 15 minutes, of which the service works through each at this speed. */
const SHOWN_MS = 14 * 60_000
const SPEED = Number(process.env.SPEED ?? 5)
/** The time between two arrivals of work, ms. */
const ARRIVAL_MS = 2000
const SETTLED_MS = 1000
/** The first that keeps a picture within its bytes. */
const QUALITIES = [82, 72, 62, 52, 42]
const LARGEST_BYTES = 60_000

const folder = mkdtempSync(join(tmpdir(), 'sluice-pictures-'))
const clock = hurriedClock((SHOWN_MS * (SPEED - 1)) / SPEED, SPEED)
const sluice = busyEngine(`sqlite:${join(folder, 'jobs.db')}`, clock)
await sluice.start()
await fill(sluice, 4)
/** Work arrives in waves, a little more for the first tenant than its budget allows. */
const arrive = async (wave) => {
  const swell = 1 + Math.sin(wave / 6)
  const calls = TENANTS.flatMap((tenant, n) =>
    Array.from({ length: n === 0 ? 6 : Math.round(swell * 5) }, () => tenant),
  )
  for (const tenant of calls) await enqueueSync(tenant, { region: 'eu', tenant })
  for (let n = 0; n < Math.round(19 * swell); n++)
    await enqueueMail(`${n === 7 ? 'nobody' : 'grace'}+${wave}.${n}@example.com`, 'invoice')
}
for (let wave = 0; clock.leftMs() > 0; wave++) {
  await arrive(wave)
  await sleep(ARRIVAL_MS)
}
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
      action: 'retry',
      filter: { state: ['discarded'], task: 'mail.send' },
      reason: 'the mailboxes are back',
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
  for (const quality of QUALITIES) {
    const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality })
    const picture = Buffer.from(data, 'base64')
    if (picture.byteLength > LARGEST_BYTES && quality !== QUALITIES.at(-1)) continue
    if (picture.byteLength > LARGEST_BYTES) throw new Error(`${name} is larger than ${LARGEST_BYTES} bytes`)
    writeFileSync(`${OUT}${name}.webp`, picture)
    if (name === 'overview-light') writeFileSync(README_PICTURE, picture)
    return
  }
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
