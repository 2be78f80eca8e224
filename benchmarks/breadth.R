# Writes data sets that come with packages of R as CSV files into the folder given: the label is the column y, columns of
# text are categories. A package that is not installed is passed over. Two collections: the second, named further/*, came
# later; classes of fewer than 12 rows are left out there.
folder <- commandArgs(trailingOnly = TRUE)[1]
dir.create(file.path(folder, "further"))

bring <- function(package, name, file = name) {
  place <- new.env()
  suppressWarnings(try(data(list = file, package = package, envir = place), silent = TRUE))
  if (exists(name, place)) get(name, place) else NULL
}

put <- function(set, frame, label, dropped = character(), least = 0) {
  if (is.null(frame)) return(invisible())
  frame <- as.data.frame(frame)
  y <- as.character(frame[[label]])
  frame <- frame[setdiff(names(frame), c(label, dropped))]
  frequent <- names(which(table(y) >= least))
  frame <- frame[y %in% frequent, , drop = FALSE]
  y <- y[y %in% frequent]
  frame[] <- lapply(frame, function(x) if (is.ordered(x) || is.logical(x)) as.integer(x) else if (inherits(x, "Date")) as.numeric(x) else x)
  names(frame) <- ifelse(vapply(frame, is.numeric, TRUE), paste0("number", seq_along(frame)), paste0("level", seq_along(frame)))
  write.csv(cbind(frame, y), file.path(folder, paste0(set, ".csv")), row.names = FALSE)
}

put("breast-w", bring("mlbench", "BreastCancer"), "Class", "Id")
put("pima", bring("mlbench", "PimaIndiansDiabetes2"), "diabetes")
put("votes", bring("mlbench", "HouseVotes84"), "Class")
put("sonar", bring("mlbench", "Sonar"), "Class")
put("vehicle", bring("mlbench", "Vehicle"), "Class")
put("glass", bring("mlbench", "Glass"), "Type")
put("vowel", bring("mlbench", "Vowel"), "Class")
put("satellite", bring("mlbench", "Satellite"), "classes")
put("soybean", bring("mlbench", "Soybean"), "Class")
put("german-credit", bring("caret", "GermanCredit"), "Class")
put("dhfr", bring("caret", "dhfr"), "Y")
put("attrition", bring("modeldata", "attrition"), "Attrition")
put("credit-data", bring("modeldata", "credit_data"), "Status")
put("churn", bring("modeldata", "mlc_churn"), "churn")
put("phone-churn", bring("modeldata", "wa_churn"), "churn")
put("lending-club", bring("modeldata", "lending_club"), "Class")
put("two-class", bring("modeldata", "two_class_dat"), "Class")
put("cells", bring("modeldata", "cells"), "class", "case")
put("alzheimer", bring("modeldata", "ad_data"), "Class")
put("scat", bring("modeldata", "scat"), "Species")
put("hpc", bring("modeldata", "hpc_data"), "class")
put("promoters", bring("kernlab", "promotergene"), "Class")
put("musk", bring("kernlab", "musk"), "Class")
put("credit-card", bring("AER", "CreditCard"), "card")
put("mortgage", bring("AER", "HMDA"), "deny")
put("swiss-labor", bring("AER", "SwissLabor"), "participation")
put("titanic", bring("carData", "TitanicSurvival"), "survived")
put("cowles", bring("carData", "Cowles"), "volunteer")
put("chile", bring("carData", "Chile"), "vote")
put("kyphosis", bring("rpart", "kyphosis"), "Kyphosis")
put("stage-c", bring("rpart", "stagec"), "pgstat", "pgtime")
put("penguins", bring("palmerpenguins", "penguins"), "sex")
put("birth-weight", bring("MASS", "birthwt"), "low", "bwt")
put("labor", bring("AER", "PSID1976"), "participation", c("hours", "wage", "repwage", "hhours"))
put("affairs", transform(bring("AER", "Affairs"), any = affairs > 0), "any", "affairs")
put("drug-mdrr", local({
  place <- new.env()
  suppressWarnings(data("mdrr", package = "caret", envir = place))
  if (exists("mdrrDescr", place)) cbind(place$mdrrDescr, class = place$mdrrClass) else NULL
}), "class")

further <- function(package, data, label, dropped = character(), rows = Inf, file = data, set = data) {
  frame <- bring(package, data, file)
  if (!is.null(frame)) put(file.path("further", tolower(set)), head(as.data.frame(frame), rows), label, dropped, least = 12)
}

above <- function(package, data, column, bound, dropped = character(), file = data) { # whether a number is large
  frame <- bring(package, data, file)
  if (is.null(frame)) return(invisible())
  frame <- as.data.frame(frame)
  frame$above <- frame[[column]] > bound
  put(file.path("further", tolower(data)), frame, "above", c(column, dropped), least = 12)
}

depth <- c(
  "baby", "biomed", "bloodtransfusion", "bupa", "cloud", "crab_MvsF", "ecoli_cpvsim", "gemsen_MvsF", "groessen_MvsF", "haberman",
  "heart", "indian_liver_patient_1vs2", "irish_ed_MvsF", "plasma_retinol_MvsF", "segmentation", "socmob_IvsNI", "tae",
  "tips_DvsN", "vertebral_column", "veteran_lung_cancer"
)
for (each in depth) {
  frame <- bring("ddalpha", each)
  if (!is.null(frame)) put(file.path("further", tolower(sub("_.*", "", each))), frame, names(frame)[ncol(frame)], least = 12)
}

above("survival", "pbc", "status", 1, c("id", "time"))
colon <- bring("survival", "colon", "cancer")
put("further/colon", colon[colon$etype == 2, ], "status", c("id", "time", "etype", "study"), least = 12)
further("survival", "flchain", "death", c("futime", "chapter", "sample.yr"))
further("survival", "mgus2", "death", c("id", "futime", "ptime", "pstat"), file = "cancer")
further("survival", "nwtco", "rel", c("seqno", "edrel"))
further("survival", "gbsg", "status", c("pid", "rfstime"), file = "cancer")
further("survival", "rotterdam", "recur", c("pid", "rtime", "dtime", "death"), file = "cancer")
further("survival", "myeloid", "death", c("id", "futime", "txtime", "crtime", "rltime"), file = "cancer")
further("survival", "lung", "status", "time", file = "cancer")
further("survival", "transplant", "event", "futime")

further("HSAUR3", "CHFLS", "R_happy")
further("vcdExtra", "ICU", "died")
further("psych", "bfi", "gender")
further("psych", "sat.act", "gender")
further("KMsurv", "burn", "D3", c("Obs", "T1", "D1", "T2", "D2", "T3"))
further("KMsurv", "std", "rinfct", c("obs", "time"))
further("KMsurv", "kidtran", "delta", c("obs", "time"))
further("KMsurv", "bfeed", "smoke", c("duration", "delta"))
further("mclust", "thyroid", "Diagnosis")
further("mclust", "diabetes", "class")

further("mlmRev", "Contraception", "use", c("woman", "district"))
further("mlmRev", "guPrenat", "prenat", c("kid", "cluster", "mom"))
further("mlmRev", "guImmun", "immun", c("kid", "mom", "comm"))
further("TH.data", "GlaucomaM", "Class")
further("TH.data", "wpbc", "status", "time")
further("TH.data", "mammoexp", "ME")
further("ipred", "dystrophy", "Class", c("OBS", "HospID", "M", "Y"))
further("VGAM", "hunua", "kniexc")
further("VGAM", "waitakere", "beitaw")
further("Epi", "births", "lowbw", c("id", "bweight"))
further("Epi", "diet", "fail", c("id", "doe", "dox", "chd", "y"))

further("pscl", "admit", "score")
above("pscl", "bioChemists", "art", 1)
further("pscl", "iraqVote", "y", c("name", "state.name"))
further("pscl", "vote92", "vote")
further("pscl", "politicalInformation", "y")
further("ordinal", "soup", "SURENESS", "RESP")
further("mice", "boys", "gen")
above("mice", "popmis", "teachpop", 5, c("pupil", "school"))
further("mice", "selfreport", "sex", "id")
further("VIM", "colic", "outcome", c("hospitalID", "surgical_lesion", "type1", "type2", "type3", "cp_data"))
further("VIM", "wine", "country", c("province", "taster_twitter_handle", "winery"))

further("dslabs", "olive", "area", "region")
further("dslabs", "heights", "sex")
digits <- bring("dslabs", "mnist_27")
if (!is.null(digits)) put("further/mnist_27", rbind(digits$train, digits$test), "y", least = 12)
tissue <- bring("dslabs", "tissue_gene_expression")
if (!is.null(tissue)) put("further/tissue", data.frame(tissue$x, y = tissue$y), "y", least = 12)

further("carData", "Arrests", "released")
further("carData", "BEPS", "vote")
further("carData", "Womenlf", "partic")
further("carData", "Wells", "switch")
further("carData", "WVS", "poverty")
further("carData", "CES11", "abortion", c("id", "population", "weight"))
further("carData", "Rossi", "arrest", c("week", paste0("emp", 1:52)))
further("carData", "MplsStops", "problem", c("idNum", "date", "MDC", "preRace"))
further("carData", "Salaries", "sex")
further("carData", "SLID", "sex")

further("MASS", "Melanoma", "status", "time")
further("MASS", "Aids2", "status", "death")
above("MASS", "Boston", "medv", 21)
further("MASS", "survey", "Sex")
above("MASS", "quine", "Days", 11)

further("modeldata", "pd_speech", "class")
further("modeldata", "stackoverflow", "Remote")
further("modeldata", "parabolic", "class")
above("modeldata", "Sacramento", "price", 220000)
above("modeldata", "concrete", "compressive_strength", 35)
above("modeldata", "ames", "Sale_Price", 160000)
above("modeldata", "meats", "fat", 14, c("water", "protein"))
above("modeldata", "car_prices", "Price", 18000)
above("modeldata", "solubility_test", "solubility", -2.5)

further("AER", "BankWages", "job")
further("AER", "CPS1985", "union")
further("AER", "GSOEP9402", "school")
further("AER", "HealthInsurance", "insurance")
further("AER", "NMES1988", "insurance")
further("AER", "SmokeBan", "smoker")
further("AER", "TeachingRatings", "gender", "prof")
further("AER", "DoctorVisits", "private")
further("AER", "ResumeNames", "call", "name")
further("AER", "Fertility2", "morekids", rows = 20000)

further("mlbench", "LetterRecognition", "lettr", set = "letter")
above("mlbench", "Ozone", "V4", 10)
above("mlbench", "Servo", "Class", 10)
further("nlme", "MathAchieve", "Minority", "School")
further("boot", "channing", "cens", c("time", "exit"))
