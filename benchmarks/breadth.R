# Writes data sets that come with packages of R as CSV files into the folder given: the label is the column y, columns of
# text are categories. A package that is not installed is passed over.
folder <- commandArgs(trailingOnly = TRUE)[1]

bring <- function(package, name) {
  place <- new.env()
  suppressWarnings(data(list = name, package = package, envir = place))
  if (exists(name, place)) as.data.frame(get(name, place)) else NULL
}

put <- function(set, frame, label, dropped = character()) {
  if (is.null(frame)) return(invisible())
  y <- as.character(frame[[label]])
  frame <- frame[setdiff(names(frame), c(label, dropped))]
  frame[] <- lapply(frame, function(x) if (is.ordered(x) || is.logical(x)) as.integer(x) else if (inherits(x, "Date")) as.numeric(x) else x)
  names(frame) <- ifelse(vapply(frame, is.numeric, TRUE), paste0("number", seq_along(frame)), paste0("level", seq_along(frame)))
  write.csv(cbind(frame, y)[!is.na(y), ], file.path(folder, paste0(set, ".csv")), row.names = FALSE)
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
