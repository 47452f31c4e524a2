/** Notion, Airtable, Google Sheets, Microsoft Graph, Asana and ClickUp. */
import { bucket, type Preset, preset, type PresetLimit, within } from './preset.ts'
import { page } from './sources.ts'

/** Notion: an average for each connection. */
export const notion: Preset<'connection', 'requests'> = preset(
  {
    name: 'notion',
    title: 'Notion API',
    sources: [page('https://developers.notion.com/reference/request-limits.md')],
    headers: [],
    refusal: { status: [429, 529], wait: ['retry-after'], mark: 'rate_limited' },
    note: 'Newer copies of the page speak of a budget for each minute by plan, and of one for the workspace.',
  },
  { connection: { requests: { policy: bucket('3/s'), key: 'the connection (integration)' } } },
)

/** Airtable: one budget for each base, and one for each token's user. */
export const airtable: Preset<'default', 'base' | 'user'> = preset(
  {
    name: 'airtable',
    title: 'Airtable Web API',
    sources: [page('https://support.airtable.com/docs/en/managing-api-call-limits-in-airtable', '2024-11-04')],
    headers: [],
    refusal: { status: [429], wait: [], otherwise: '30s' },
    note: 'After a refusal Airtable wants 30 s without calls. Free and Team plans have limits for a month too.',
  },
  {
    default: {
      base: { policy: within(5, '1s'), key: 'the base' },
      user: { policy: within(50, '1s'), key: 'the user or service account of the tokens' },
    },
  },
)

function sheets(): Preset<string, 'project' | 'user'>['plans'][string] {
  return {
    project: { policy: within(300, '1m'), key: 'the project' },
    user: { policy: within(60, '1m'), key: 'the project and the user' },
  }
}

/** Google Sheets: reading and writing have budgets of their own. */
export const googleSheets: Preset<'read' | 'write', 'project' | 'user'> = preset(
  {
    name: 'google-sheets',
    title: 'Google Sheets API',
    sources: [page('https://developers.google.com/sheets/api/limits')],
    headers: [],
    refusal: { status: [429], wait: [], otherwise: '1m' },
    byOperation: true,
  },
  { read: sheets(), write: sheets() },
)

/** Microsoft Graph: the Outlook service, and the limit of the app. */
export const microsoftGraph: Preset<'outlook', 'mailbox' | 'concurrent' | 'app'> = preset(
  {
    name: 'microsoft-graph',
    title: 'Microsoft Graph, Outlook service',
    sources: [
      page('https://learn.microsoft.com/graph/throttling-limits'),
      page('https://github.com/microsoftgraph/microsoft-graph-docs-contrib/blob/main/concepts/throttling-limits.md'),
    ],
    headers: [],
    refusal: { status: [429], wait: ['retry-after'] },
    note: 'Each service of Graph has limits of its own.',
  },
  {
    outlook: {
      mailbox: { policy: within(10_000, '10m'), key: 'the app and the mailbox' },
      concurrent: { policy: { concurrency: 4 }, key: 'the app' },
      app: { policy: within(130_000, '10s'), key: 'the app' },
    },
  },
)

function asanaPlan(perMinute: number): Preset<string, 'requests' | 'search'>['plans'][string] {
  const key = 'the authorization token'
  return { requests: { policy: within(perMinute, '1m'), key }, search: { policy: within(60, '1m'), key } }
}

/** Asana, by whether the domain pays. */
export const asana: Preset<'free' | 'paid', 'requests' | 'search'> = preset(
  {
    name: 'asana',
    title: 'Asana API',
    sources: [page('https://developers.asana.com/jd/docs/rate-limits')],
    headers: [],
    refusal: { status: [429], wait: ['retry-after'] },
  },
  { free: asanaPlan(150), paid: asanaPlan(1500) },
)

function clickupPlan(perMinute: number): { readonly requests: PresetLimit } {
  return { requests: { policy: within(perMinute, '1m', { calibrate: 'headers' }), key: 'the token' } }
}

/** ClickUp, by the plan of the workspace; `business` stands for the cheaper ones too. */
export const clickup: Preset<'business' | 'business-plus' | 'enterprise', 'requests'> = preset(
  {
    name: 'clickup',
    title: 'ClickUp API',
    sources: [page('https://developer.clickup.com/docs/rate-limits')],
    headers: ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'],
    refusal: { status: [429], wait: ['x-ratelimit-reset'] },
  },
  { business: clickupPlan(100), 'business-plus': clickupPlan(1000), enterprise: clickupPlan(10_000) },
)
