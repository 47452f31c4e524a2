/** GitHub, GitLab, Jira, Cloudflare and DigitalOcean. */
import { type Preset, preset, within } from './preset.ts'
import { page } from './sources.ts'

const X_RATELIMIT = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']
const BY_HEADERS = { calibrate: 'headers' } as const

const GITHUB_PAGE = page(
  'https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api?apiVersion=2026-03-10',
)
const GITHUB_REFUSAL = { status: [403, 429], wait: ['retry-after', 'x-ratelimit-reset'], otherwise: '1m' } as const
const GITHUB_SECONDARY = {
  points: {
    policy: within(900, '1m'),
    key: 'the user and the endpoint',
    unit: 'points: 1 for GET, HEAD and OPTIONS, 5 for most other methods',
  },
  concurrent: { policy: { concurrency: 100 }, key: 'the user, with GraphQL' },
} as const

/** GitHub's REST API: the hourly budget, and two of its secondary limits. */
export const github: Preset<'anonymous' | 'user' | 'enterprise' | 'actions', 'requests' | 'points' | 'concurrent'> =
  preset(
    {
      name: 'github',
      title: 'GitHub REST API',
      sources: [
        GITHUB_PAGE,
        page('https://docs.github.com/enterprise-server@3.14/rest/using-the-rest-api/rate-limits-for-the-rest-api'),
      ],
      headers: [...X_RATELIMIT, 'x-ratelimit-used', 'x-ratelimit-resource'],
      refusal: GITHUB_REFUSAL,
      note: 'Content-creating calls have further limits: in general 80 a minute and 500 an hour.',
    },
    {
      anonymous: { requests: { policy: within(60, '1h', BY_HEADERS), key: 'the IP address' }, ...GITHUB_SECONDARY },
      user: { requests: { policy: within(5000, '1h', BY_HEADERS), key: 'the user' }, ...GITHUB_SECONDARY },
      enterprise: {
        requests: { policy: within(15_000, '1h', BY_HEADERS), key: 'the user, or the installation' },
        ...GITHUB_SECONDARY,
      },
      actions: { requests: { policy: within(1000, '1h', BY_HEADERS), key: 'the repository' }, ...GITHUB_SECONDARY },
    },
  )

/** GitHub's GraphQL API, which counts points. */
export const githubGraphql: Preset<'user' | 'enterprise' | 'actions', 'points' | 'endpoint'> = preset(
  {
    name: 'github-graphql',
    title: 'GitHub GraphQL API',
    sources: [
      page('https://docs.github.com/zh/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api'),
      GITHUB_PAGE,
    ],
    headers: [...X_RATELIMIT, 'x-ratelimit-used', 'x-ratelimit-resource'],
    refusal: GITHUB_REFUSAL,
    note: 'The 100 calls at once are shared with REST: use the limit concurrent of github.',
  },
  {
    user: graphql(5000, 'the user'),
    enterprise: graphql(10_000, 'the user, or the installation'),
    actions: graphql(1000, 'the repository'),
  },
)

function graphql(points: number, key: string): Preset<string, 'points' | 'endpoint'>['plans'][string] {
  return {
    points: { policy: within(points, '1h', BY_HEADERS), key, unit: 'points of the query' },
    endpoint: { policy: within(2000, '1m'), key: 'the user', unit: 'points: 1 for a query, 5 for a mutation' },
  }
}

/** GitLab.com's API. */
export const gitlab: Preset<'authenticated' | 'anonymous', 'requests'> = preset(
  {
    name: 'gitlab',
    title: 'GitLab.com API',
    sources: [
      page('https://about.gitlab.com/blog/automation-check-in-and-rate-limit-changes-on-gitlab-dot-com', '2020-12-17'),
      page('https://docs.gitlab.com/user/gitlab_com/rate_limits/'),
    ],
    headers: [],
    refusal: { status: [429], wait: [], otherwise: '1m' },
    note: 'GitLab announces limits by plan, which are not in force yet.',
  },
  {
    authenticated: { requests: { policy: within(2000, '1m'), key: 'the user' } },
    anonymous: { requests: { policy: within(500, '1m'), key: 'the IP address' } },
  },
)

/** Jira Cloud's REST API, for apps: the hourly pool of points that all tenants of an app share. */
export const jira: Preset<'app', 'points'> = preset(
  {
    name: 'jira',
    title: 'Jira Cloud REST API',
    sources: [
      page('https://developer.atlassian.com/cloud/jira/platform/rate-limiting', '2026-03-05'),
      page('https://www.atlassian.com/blog/platform/evolving-api-rate-limits'),
      page('https://community.developer.atlassian.com/t/2026-point-based-rate-limits/97828'),
    ],
    headers: ['ratelimit', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'ratelimit-reason'],
    refusal: { status: [429], wait: ['retry-after', 'x-ratelimit-reset'] },
    note: 'Only the community page has the number. Limits by endpoint and by issue hold too.',
  },
  {
    app: {
      points: { policy: within(65_000, '1h'), key: null, unit: 'points: 1 for each call, and 1 for each object read' },
    },
  },
)

/** Cloudflare's API. */
export const cloudflare: Preset<'default', 'user' | 'ip'> = preset(
  {
    name: 'cloudflare',
    title: 'Cloudflare API',
    sources: [
      page('https://developers.cloudflare.com/fundamentals/api/reference/limits/index.md', '2026-04-20'),
      page('https://developers.cloudflare.com/api/limits'),
    ],
    headers: ['ratelimit', 'ratelimit-policy'],
    refusal: { status: [429], wait: ['retry-after', 'ratelimit'], otherwise: '5m' },
    note: 'After a refusal all calls of the next five minutes are refused.',
  },
  {
    default: {
      user: { policy: within(1200, '5m', BY_HEADERS), key: 'the user, or the account token' },
      ip: { policy: within(200, '1s'), key: 'the IP address' },
    },
  },
)

/** DigitalOcean's API. */
export const digitalocean: Preset<'default', 'hour' | 'minute'> = preset(
  {
    name: 'digitalocean',
    title: 'DigitalOcean API',
    sources: [page('https://docs.rs/crate/rsdo/latest/source/spec/specification/shared/headers.yml', '2026-09-01')],
    headers: ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
    refusal: { status: [429], wait: ['ratelimit-reset'] },
    note: "The page is a copy of the provider's OpenAPI files.",
  },
  {
    default: {
      hour: { policy: within(5000, '1h', BY_HEADERS), key: 'the token' },
      minute: { policy: within(250, '1m'), key: 'the token' },
    },
  },
)
