package alerting

import (
	"errors"
	"fmt"
	"log/slog"

	commonconfig "github.com/prometheus/common/config"

	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/discord"
	"github.com/prometheus/alertmanager/notify/email"
	"github.com/prometheus/alertmanager/notify/incidentio"
	"github.com/prometheus/alertmanager/notify/jira"
	"github.com/prometheus/alertmanager/notify/mattermost"
	"github.com/prometheus/alertmanager/notify/msteams"
	"github.com/prometheus/alertmanager/notify/msteamsv2"
	"github.com/prometheus/alertmanager/notify/opsgenie"
	"github.com/prometheus/alertmanager/notify/pagerduty"
	"github.com/prometheus/alertmanager/notify/pushover"
	"github.com/prometheus/alertmanager/notify/rocketchat"
	"github.com/prometheus/alertmanager/notify/slack"
	"github.com/prometheus/alertmanager/notify/telegram"
	"github.com/prometheus/alertmanager/notify/victorops"
	"github.com/prometheus/alertmanager/notify/webex"
	"github.com/prometheus/alertmanager/notify/webhook"
	"github.com/prometheus/alertmanager/notify/wechat"
	"github.com/prometheus/alertmanager/template"
)

// integrations builds what notifies one receiver: every kind that Alertmanager has but
// Amazon SNS, whose library would add a tenth to the size of the program.
func integrations(rc amconfig.Receiver, tmpl *template.Template, log *slog.Logger) ([]notify.Integration, error) {
	if len(rc.SNSConfigs) > 0 {
		return nil, errors.New("sns_configs: Amazon SNS is not built into this program; use webhook_configs with a gateway to SNS, or run an Alertmanager and name it with --alertmanager")
	}
	b := &integrationList{receiver: rc.Name, template: tmpl, log: log}
	build(b, "webhook", rc.WebhookConfigs, webhook.New)
	for i, c := range rc.EmailConfigs {
		b.list = append(b.list, notify.NewIntegration(email.New(c, tmpl, log.With("integration", "email")), c, "email", i, rc.Name))
	}
	build(b, "pagerduty", rc.PagerdutyConfigs, pagerduty.New)
	build(b, "opsgenie", rc.OpsGenieConfigs, opsgenie.New)
	build(b, "wechat", rc.WechatConfigs, wechat.New)
	build(b, "slack", rc.SlackConfigs, slack.New)
	build(b, "victorops", rc.VictorOpsConfigs, victorops.New)
	build(b, "pushover", rc.PushoverConfigs, pushover.New)
	build(b, "telegram", rc.TelegramConfigs, telegram.New)
	build(b, "discord", rc.DiscordConfigs, discord.New)
	build(b, "webex", rc.WebexConfigs, webex.New)
	build(b, "msteams", rc.MSTeamsConfigs, msteams.New)
	build(b, "msteamsv2", rc.MSTeamsV2Configs, msteamsv2.New)
	build(b, "jira", rc.JiraConfigs, jira.New)
	build(b, "incidentio", rc.IncidentioConfigs, incidentio.New)
	build(b, "rocketchat", rc.RocketchatConfigs, rocketchat.New)
	build(b, "mattermost", rc.MattermostConfigs, mattermost.New)
	return b.list, errors.Join(b.errs...)
}

type integrationList struct {
	receiver string
	template *template.Template
	log      *slog.Logger
	list     []notify.Integration
	errs     []error
}

// build adds one integration for each configuration of a kind.
func build[C notify.ResolvedSender, N notify.Notifier](b *integrationList, kind string, configs []C,
	open func(C, *template.Template, *slog.Logger, ...commonconfig.HTTPClientOption) (N, error),
) {
	for i, c := range configs {
		n, err := open(c, b.template, b.log.With("integration", kind))
		if err != nil {
			b.errs = append(b.errs, fmt.Errorf("%s_configs: %w", kind, err))
			continue
		}
		b.list = append(b.list, notify.NewIntegration(n, c, kind, i, b.receiver))
	}
}
