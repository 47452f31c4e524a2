// Every page in a real Chromium, over the data of a service at work, on each store.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import axe from 'axe-core'
import type { Locator, Page } from 'playwright-core'
import { silentLogger, Sluice } from '../../src/exports/index.ts'
import { everyStore, onSqlite } from '../stores.ts'
import { findBrowser, sceneOf, serveDashboard } from './browser.ts'
import { enqueueMail, enqueueSync, LONG_NAME } from './busy-engine.ts'

const LEFT_OUT = 'the dashboard in a browser'
const browser = await findBrowser(LEFT_OUT)
const kinds = browser ? await everyStore(LEFT_OUT) : []
afterAll(() => browser?.close())

const PAGES = [
  ['/', 'Overview'],
  ['/limits', 'Limits'],
  ['/limits/crm', 'crm'],
  ['/limits/crm/keys/acme', 'crm · acme'],
  [`/limits/crm/keys/${LONG_NAME}`, `crm · ${LONG_NAME}`],
  ['/limits/mail/keys/~', 'mail'],
  ['/jobs', 'Jobs'],
  ['/jobs?state=discarded&task=card.charge', 'Jobs'],
  ['/flows', 'Flows'],
  ['/queues', 'Queues'],
  ['/schedules', 'Schedules'],
  ['/workers', 'Workers'],
  ['/tasks', 'Tasks'],
  ['/bulk', 'Bulk changes'],
  ['/audit', 'Audit'],
] as const

/** Every page. The addresses of a job and of a flow are known when there is one. */
async function everyPage(sluice: Sluice): Promise<(readonly [string, string])[]> {
  // Every mailbox budget is used up by then, and the first cards are declined.
  await expect.poll(() => sluice.jobs.count({ states: ['discarded'] })).toBeGreaterThan(0)
  const [declined] = await sluice.jobs.list({ states: ['discarded'] })
  const [flow] = await sluice.flows.list({ workflow: 'code.review' })
  return [
    ...PAGES,
    [`/jobs/${declined!.id}`, declined!.task],
    [`/jobs/${await enqueueSync('acme')}`, 'tenant.sync'],
    [`/flows/${flow!.id}`, 'code.review'],
  ]
}

async function shown(page: Page, title: string): Promise<void> {
  await page.locator('h1', { hasText: title }).waitFor()
  await page.locator('[role=status]:has-text("Loading")').first().waitFor({ state: 'detached' })
}

const STANDARDS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** The findings of axe-core, in one line each. */
async function violations(page: Page): Promise<string[]> {
  // Evaluated by the debugger, which the page's policy does not concern.
  await page.evaluate(axe.source)
  return page.evaluate(`axe.run({ runOnly: ${JSON.stringify(STANDARDS)}, resultTypes: ['violations'], iframes: false, preload: false }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 160)).join(' | ')))`)
}

/** The findings in both themes, and in both on a phone. */
async function everyLook(page: Page, at: string): Promise<string[]> {
  const found: string[] = []
  for (const width of [1440, 375])
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme })
      found.push(...(await violations(page)).map((each) => `${at}, ${colorScheme}, ${width} px: ${each}`))
    }
  return found
}

describe.runIf(browser)('the dashboard in Chromium', () => {
  describe.each(kinds)('on $name', (kind) => {
    const scene = sceneOf(kind)
    const open = async (path: string, title: string): Promise<Page> => {
      const { page } = await browser!.window()
      await page.goto(`${scene.url}${path}`)
      await shown(page, title)
      return page
    }

    it('shows each page without an error, readable by everyone in both themes, and at 375 px', async () => {
      const { page, complaints } = await browser!.window()
      // The page is the same on each store; what it asks is not.
      const isWhole = kind.name === 'sqlite'
      const found: string[] = []
      const look = async (at: string): Promise<void> => {
        if (isWhole) found.push(...(await violations(page)).map((each) => `${at}: ${each}`))
      }
      await fetch(`${scene.url}/monitor/v1/bulk`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-sluice-request': '1' },
        body: JSON.stringify({ action: 'cancel', filter: { queue: 'nowhere' }, reason: 'nothing is there' }),
      })
      for (const [path, title] of await everyPage(scene.sluice)) {
        await page.setViewportSize({ width: 1440, height: 900 })
        await page.goto(`${scene.url}${path}`)
        await shown(page, title)
        await page.emulateMedia({ colorScheme: 'light' })
        await look(`${path}, light`)
        await page.emulateMedia({ colorScheme: 'dark' })
        await look(`${path}, dark`)
        found.push(...(await page.locator('[role=alert]').allTextContents()).map((text) => `${path} says ${text}`))
        await page.setViewportSize({ width: 375, height: 700 })
        const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
        if (wide > 0) found.push(`${path} is ${wide} px wider than a phone`)
        await look(`${path}, 375 px`)
      }
      expect(found).toEqual([])
      expect(complaints).toEqual([])
      // Fifteen pages, each read five times.
    }, 600_000)

    it('leads in three clicks from the overview to why a job waits', async () => {
      const page = await open('', 'Overview')
      await page.getByRole('link', { name: 'crm · acme' }).first().click()
      await page.getByRole('region', { name: 'Jobs in line' }).getByRole('link', { name: 'tenant.sync' }).nth(2).click()
      const why = page.getByTestId('why')
      await why.waitFor()
      expect(await why.textContent()).toMatch(/Waits for crm · acme, \d+(st|nd|rd|th) in line, starts (at|about) /)
    })

    it('shows a change within a second', async () => {
      const page = await open('/queues', 'Queues')
      await page.locator('[data-testid=connection]:visible', { hasText: 'Live' }).waitFor()
      const row = page.getByRole('row', { name: /^later/ })
      expect(await row.count()).toBe(0)
      const began = performance.now()
      await enqueueMail('ada@example.com', 'late', 'later')
      await row.waitFor()
      // The promise is a second; the rest is for a machine that does other things, too. By itself the page asks after 5 s.
      expect(performance.now() - began).toBeLessThan(5000)
    })

    it('shows changes though the next one comes before the server has answered', async () => {
      const { page } = await browser!.window()
      await page.route('**/monitor/v1/queues', async (route) => {
        const response = await route.fetch()
        await sleep(1000)
        // The page may have given the question up.
        await route.fulfill({ response }).catch(() => undefined)
      })
      await page.goto(`${scene.url}/queues`)
      await shown(page, 'Queues')
      await page.locator('[data-testid=connection]:visible', { hasText: 'Live' }).waitFor()
      const seen = new AbortController()
      const changes = (async () => {
        for (; !seen.signal.aborted; await sleep(50)) await enqueueMail('ada@example.com', 'steady', 'steady')
      })()
      try {
        await page.getByRole('row', { name: /^steady/ }).waitFor()
      } finally {
        seen.abort()
        await changes
      }
      expect(await page.getByRole('alert').count()).toBe(0)
    })

    it('says that the connection is lost, and goes on by itself when the server is back', async () => {
      const served = await serveDashboard(scene.sluice)
      const { page } = await browser!.window()
      await page.goto(`${served.url}/queues`)
      await page.locator('[data-testid=connection]:visible', { hasText: 'Live' }).waitFor()
      await served.stop()
      await page.getByRole('alert').filter({ hasText: 'The connection to the server is lost' }).waitFor()
      await enqueueMail('ada@example.com', 'meanwhile', 'meanwhile')
      await served.restart()
      await page.locator('[data-testid=connection]:visible', { hasText: 'Live' }).waitFor()
      await page.getByRole('row', { name: /^meanwhile/ }).waitFor()
      expect(await page.getByRole('alert').count()).toBe(0)
    })

    it('shows what a job has logged, which flows it has started, and how long it is kept', async () => {
      const { sluice } = scene
      await expect.poll(() => sluice.jobs.count({ states: ['completed'], task: 'tenant.sync' })).toBeGreaterThan(0)
      const [ran] = await sluice.jobs.list({ states: ['completed'], task: 'tenant.sync', limit: 1 })
      const page = await open(`/jobs/${ran!.id}`, 'tenant.sync')
      const part = (name: string): Locator =>
        page.locator('section').filter({ has: page.getByRole('heading', { name }) })
      await part('Logs').getByText('asked the CRM for what changed').waitFor()
      expect(await part('Logs').textContent()).toContain(
        `tenant=${JSON.stringify((ran!.input as { tenant: string }).tenant)}`,
      )
      expect(await part('Details').textContent()).toMatch(/Kept until\D{0,4}\d/)

      const [flow] = await sluice.flows.list({ workflow: 'region.open' })
      await expect.poll(() => sluice.flows.inspect(flow!.id)).toMatchObject({ state: 'completed' })
      const [own] = await sluice.jobs.list({ flow: flow!.id, limit: 1 })
      await page.goto(`${scene.url}/jobs/${own!.id}`)
      await expect.poll(() => part('Child flows').getByRole('link', { name: 'tenant.welcome' }).count()).toBe(2)
      expect(await part('Details').textContent()).toContain('its flow is deleted')
      await part('Child flows').getByRole('link', { name: 'tenant.welcome' }).first().click()
      await shown(page, 'tenant.welcome')
    })

    it('draws the edges of a graph', async () => {
      const flows = await scene.sluice.flows.list({ workflow: 'code.review' })
      const page = await open(`/flows/${flows[0]!.id}`, 'code.review')
      const ends = page.locator('.react-flow__edge')
      await ends.nth(3).waitFor({ state: 'attached' })
      const edges = await page.evaluate<string[]>(
        `[...document.querySelectorAll('.react-flow__edge')].map((each) => each.getAttribute('data-id'))`,
      )
      expect(new Set(edges)).toEqual(new Set(['diff lint', 'diff summary', 'lint post', 'summary post']))
    })

    it('says how long each task runs, how often it fails, and which budget it waits for', async () => {
      const page = await open('/tasks', 'Tasks')
      const row = page.getByRole('row', { name: /^card\.charge/ })
      await row.waitFor()
      // The figures of the running minute come with the next look of the page.
      await expect.poll(() => row.textContent()).toContain('(100 %)')
      for (const window of ['10m', '6h', '2d']) {
        await page.getByLabel('Time shown').selectOption(window)
        await row.waitFor()
        expect([window, await page.getByRole('alert').count()]).toEqual([window, 0])
      }
    })
  })

  describe('on a store at work', () => {
    const scene = sceneOf(onSqlite)

    it('shows hostile texts as text', async () => {
      const { url } = await serveDashboard(scene.sluice, { redact: false })
      const { page, complaints } = await browser!.window()
      await page.exposeFunction('stolen', () => complaints.push('a payload ran'))
      for (const text of HOSTILE) {
        const id = await enqueueSync(text, { text, [text.slice(0, 60)]: 'as a name' })
        await enqueueMail(text, text)
        await page.goto(`${url}/jobs/${id}`)
        await shown(page, 'tenant.sync')
        await expect.poll(() => page.locator('main').textContent(), { message: text }).toContain(JSON.stringify(text))
      }
      const [first] = HOSTILE
      for (const path of ['/jobs', '/limits/crm', `/limits/crm/keys/${encodeURIComponent(first!)}`])
        await page.goto(`${url}${path}`).then(() => page.getByText(first!, { exact: false }).first().waitFor())
      await page.goto(`${url}/jobs?q=${encodeURIComponent(first!)}`)
      await page.getByText(/^4 jobs match$/).waitFor()
      expect(complaints).toEqual([])
    })

    it('has dialogs that are readable by everyone', async () => {
      const { page, complaints } = await browser!.window()
      const found: string[] = []
      for (const [path, title, button] of [
        ['/limits/crm', 'crm', 'Override'],
        ['/limits/crm', 'crm', 'Pause'],
        ['/limits/crm/keys/acme', 'crm · acme', 'Penalty'],
        ['/queues', 'Queues', 'Bound mail'],
        ['/schedules', 'Schedules', 'Occurrences of sync acme'],
        ['/jobs?queue=default', 'Jobs', 'Cancel'],
      ] as const) {
        await page.setViewportSize({ width: 1440, height: 900 })
        await page.goto(`${scene.url}${path}`)
        await shown(page, title)
        if (path.startsWith('/jobs')) await page.getByRole('checkbox').first().click()
        await page.getByRole('button', { name: button, exact: true }).first().click()
        await page.getByRole('dialog').waitFor()
        found.push(...(await everyLook(page, `${path}, ${button}`)))
      }
      expect(found).toEqual([])
      expect(complaints).toEqual([])
    })

    it('is at hand by the keyboard', async () => {
      const { page } = await browser!.window()
      await page.goto(scene.url)
      await shown(page, 'Overview')
      await page.keyboard.press('g')
      await page.keyboard.press('l')
      await shown(page, 'Limits')
      await page.keyboard.press('/')
      await page.keyboard.type('mail')
      await page.getByRole('row', { name: /^crm/ }).waitFor({ state: 'detached' })
      expect(new URL(page.url()).searchParams.get('q')).toBe('mail')
      await page.locator('h1').click()
      await page.keyboard.press('?')
      await page.getByRole('dialog', { name: 'Keys' }).getByText('Bulk changes').waitFor()
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      await page.keyboard.press('/')
      expect(await page.evaluate('document.activeElement.type')).toBe('search')
    })

    it('filters jobs by what they carry, keeps the filter in the address, and as a view of its own', async () => {
      const { page } = await browser!.window()
      await page.goto(`${scene.url}/jobs`)
      await shown(page, 'Jobs')
      await page.getByRole('button', { name: 'More filters' }).click()
      await page.getByLabel('metadata', { exact: true }).fill('tenant=cedar')
      await page.getByText(/^35 jobs match$/).waitFor()
      await page.getByLabel('tag', { exact: true }).fill('paid')
      await expect.poll(() => new URL(page.url()).search).toBe('?meta=tenant%3Dcedar&tag=paid')
      await page.getByRole('button', { name: 'Save view' }).click()
      await page.getByLabel('Name of the view').fill('cedar, paid')
      await page.getByRole('button', { name: 'Save', exact: true }).click()
      await page.getByRole('button', { name: 'Clear', exact: true }).click()
      await expect.poll(() => new URL(page.url()).search).toBe('')
      await page.getByLabel('Saved views').selectOption('cedar, paid')
      await expect.poll(() => new URL(page.url()).search).toContain('tag=paid')
      // Each filter of the page is one of the API.
      await page.goto(
        `${scene.url}/jobs?q=a&state=active&queue=a&task=a&tag=a&limit=crm&key=a&error=a&uniqueKey=a&flow=a&schedule=a&since=1h&until=1m&meta=a%3Db`,
      )
      await page.getByText('No job matches').waitFor()
    })

    it('says what is wrong with a filter', async () => {
      const { page } = await browser!.window()
      await page.goto(`${scene.url}/jobs?since=yesterday`)
      await page.getByRole('alert').filter({ hasText: 'yesterday' }).waitFor()
      expect(await page.getByRole('alert').count()).toBe(1)
    })

    it('stays quick with 10,000 rows', async () => {
      const { page } = await browser!.window()
      const [job] = await scene.sluice.jobs.list({ limit: 1 })
      const path = '**/monitor/v1/jobs?*'
      await page.route(path, async (route) => {
        const { jobs } = (await (await route.fetch()).json()) as { jobs: object[] }
        const many = Array.from({ length: 10_000 }, (_, n) => ({ ...jobs[0], id: `${job!.id}-${n}` }))
        await route.fulfill({
          json: { jobs: many, cursor: null, looked: { rows: 10_000, complete: true, until: null } },
        })
      })
      await page.goto(`${scene.url}/jobs`)
      await page.getByText('10,000 shown').waitFor()
      const rows = page.getByRole('region', { name: 'Jobs' }).locator('tbody tr')
      await expect.poll(() => rows.count()).toBeLessThan(100)
      await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
      await page.getByRole('checkbox', { name: new RegExp(`${job!.id}-9999$`) }).waitFor()
      expect(await rows.count()).toBeLessThan(100)
    })
  })

  it('says on each page of an empty store what will be there, and is readable by everyone', async () => {
    const sluice = new Sluice({ store: onSqlite.create(), tasks: [], queues: {}, logger: silentLogger })
    await sluice.start()
    onTestFinished(() => sluice.stop({ within: 0 }))
    const { url } = await serveDashboard(sluice)
    const { page, complaints } = await browser!.window()
    const found: string[] = []
    for (const [path, title, words] of EMPTY) {
      await page.goto(`${url}${path}`)
      await shown(page, title)
      await page.getByText(words).first().waitFor()
      found.push(...(await everyLook(page, path)))
    }
    await page.goto(`${url}/jobs/018f0000-0000-7000-8000-000000000000`)
    await page.getByRole('alert').filter({ hasText: 'This is not here' }).waitFor()
    await page.goto(`${url}/nowhere`)
    await shown(page, 'There is no such page')
    expect(found).toEqual([])
    expect(complaints).toEqual([])
  })

  it('asks for a token, says that a wrong one is refused, and asks again once it is revoked', async () => {
    const sluice = new Sluice({ store: onSqlite.create(), tasks: [], queues: {}, logger: silentLogger })
    await sluice.start()
    onTestFinished(() => sluice.stop({ within: 0 }))
    const tokens = new Set(['the right token'])
    const { url } = await serveDashboard(sluice, {
      signIn: 'token',
      authorize: (request) => (tokens.has((request.headers.get('authorization') ?? '').slice(7)) ? 'operator' : null),
    })
    const { page, complaints } = await browser!.window()
    await page.goto(`${url}/limits`)
    await shown(page, 'Sign in to Sluice')
    expect(await everyLook(page, 'sign in')).toEqual([])
    for (const [token, title] of [
      ['a wrong token', 'Sign in to Sluice'],
      ['the right token', 'Limits'],
    ] as const) {
      await page.getByLabel('Token of the server').fill(token)
      const refused = page.waitForResponse((response) => response.url().endsWith('/me'))
      await page.getByRole('button', { name: 'Sign in' }).click()
      await refused
      await shown(page, title)
      if (title !== 'Limits') await page.getByRole('alert').waitFor()
    }
    await page.locator('[data-testid=connection]:visible', { hasText: 'Live' }).waitFor()
    tokens.clear()
    // The server reads the rights of a stream again every two seconds.
    await shown(page, 'Sign in to Sluice')
    await page.getByRole('alert').waitFor()
    expect(complaints).toEqual([])
  })

  it('says that an application has signed the viewer out', async () => {
    const sluice = new Sluice({ store: onSqlite.create(), tasks: [], queues: {}, logger: silentLogger })
    await sluice.start()
    onTestFinished(() => sluice.stop({ within: 0 }))
    let grant: 'reader' | null = 'reader'
    const { url } = await serveDashboard(sluice, { authorize: () => grant })
    const { page } = await browser!.window()
    await page.goto(`${url}/limits`)
    await page.locator('[data-testid=connection]:visible', { hasText: 'Live' }).waitFor()
    grant = null
    await page.getByRole('alert').filter({ hasText: 'You may not see this any more' }).waitFor()
    expect(await page.getByRole('alert').count()).toBe(1)
  })
})

const EMPTY = [
  ['/', 'Overview', 'No job waits for a budget'],
  ['/limits', 'Limits', 'No limit is defined yet'],
  ['/jobs', 'Jobs', 'There is no job yet'],
  ['/flows', 'Flows', 'There is no flow yet'],
  ['/queues', 'Queues', 'There is no queue yet'],
  ['/schedules', 'Schedules', 'There is no schedule'],
  ['/workers', 'Workers', /No worker is alive|alive/],
  ['/tasks', 'Tasks', 'No task has run in this time'],
  ['/bulk', 'Bulk changes', 'Nothing was changed in bulk'],
  ['/audit', 'Audit', 'Nothing was changed'],
] as const

const HOSTILE = [
  '<script>stolen()</script>',
  '<img src=x onerror=stolen()>',
  '"><svg onload=stolen()>',
  "'-stolen()-'",
  'javascript:stolen()',
  '</script><script>stolen()</script>',
  '<iframe srcdoc="<script>parent.stolen()</script>">',
  '{{constructor.constructor("stolen()")()}}',
  '${stolen()}',
  '<a href="javascript:stolen()">x</a>',
  '<style>@import "//evil.example"</style>',
  '<base href="//evil.example/">',
  '<meta http-equiv="refresh" content="0;url=//evil.example">',
  '<form action="//evil.example"><input name=x>',
  '<math><mtext></mtext><mglyph><style><img src=x onerror=stolen()>',
  '\u202Egnp.exe',
  '--><!--<img src=x onerror=stolen()>',
  '<template><img src=x onerror=stolen()></template>',
  '__proto__',
  '<div style="position:fixed;inset:0">over all</div>',
]
